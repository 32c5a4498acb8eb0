"""A server on loopback that fails in ways which a real engine can't be told to: it restarts in the middle, shares its
counters, sleeps, hides them. Its bodies are those of vLLM 0.32.0. What the real one can do is in tests/e2e."""

from __future__ import annotations

import http.server
import json
import threading
import time


class Engine:
    """Knobs, and what was asked. Every answer is `per_answer` tokens, in drafts of 7 of which `accepted` are taken."""

    pause = 0.0
    """Seconds before each part of an answer."""

    def __init__(self) -> None:
        self.models = ["tiny"]
        self.listing: object = None
        """What /v1/models says instead."""
        self.max_model_len = 512
        self.per_answer = 50
        self.accepted = 4
        self.engines = 1
        self.foreign = 0
        self.hidden = False
        self.speculates = True
        self.asleep = False
        self.started = 1.79603468839e09
        self.key: str | None = None
        self.late_counts = 0
        self.cached = 0
        self.thinking = False
        self.log: str | None = None
        self.log_line = ""
        self.fault = lambda handler, n: False
        """May answer the nth completion in its own way; True if it did."""
        self.asked: list[dict] = []
        self.paths: list[str] = []
        self.drafts = self.generated = self.hits = self.running = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def count(self) -> None:
        with self.lock:
            drafts = self.per_answer // (self.accepted + 1)
            self.drafts += drafts
            self.generated += self.per_answer + self.foreign
            self.hits += self.cached

    def metrics(self) -> str:
        if self.hidden:
            return f"process_start_time_seconds {self.started}\n"
        lines = [f"process_start_time_seconds {self.started}"]
        if self.late_counts:
            self.late_counts -= 1
            drafts = generated = 0
        else:
            drafts, generated = self.drafts, self.generated

        def add(name: str, value: float, labels: str = "") -> None:
            for engine in range(self.engines):
                share = value / self.engines
                lines.append(f'vllm:{name}{{engine="{engine}",model_name="tiny"{labels}}} {share}')

        if self.speculates:
            add("spec_decode_num_drafts_total", drafts)
            add("spec_decode_num_draft_tokens_total", drafts * 7)
            add("spec_decode_num_accepted_tokens_total", drafts * self.accepted)
            for position in range(7):
                taken = drafts if position < self.accepted else 0
                add("spec_decode_num_accepted_tokens_per_pos_total", taken, f',position="{position}"')
        add("num_requests_running", self.running)
        add("num_requests_waiting", 0)
        add("generation_tokens_total", generated)
        add("prefix_cache_hits_total", self.hits)
        for engine in range(self.engines):
            awake = 0.0 if self.asleep and engine == self.engines - 1 else 1.0
            lines.append(f'vllm:engine_sleep_state{{engine="{engine}",model_name="tiny",sleep_state="awake"}} {awake}')
        return "\n".join(lines) + "\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *args) -> None:
        pass

    def reply(self, status: int, body, kind: str = "application/json") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        e = self.engine
        e.paths.append(self.path)
        if self.path.startswith("/v1") and e.key and self.headers.get("Authorization") != f"Bearer {e.key}":
            self.reply(401, {"error": "Unauthorized"})
        elif self.path == "/v1/models":
            models = {"data": [{"id": m, "max_model_len": e.max_model_len} for m in e.models]}
            self.reply(200, models if e.listing is None else e.listing)
        elif self.path == "/metrics":
            self.reply(200, e.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif self.path == "/version":
            self.reply(200, {"version": "0.32.0"})
        elif self.path == "/health":
            self.reply(200, "")
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        e = self.engine
        e.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.reply(200, {"count": len(body["prompt"]) // 4})
            return
        if e.key and self.headers.get("Authorization") != f"Bearer {e.key}":
            self.reply(401, {"error": "Unauthorized"})
            return
        with e.lock:
            e.asked.append(body)
            n = len(e.asked)
            e.running += 1
        try:
            if not e.fault(self, n):
                self.answer(body)
        finally:
            with e.lock:
                e.running -= 1

    def answer(self, body: dict) -> None:
        e = self.engine
        if not body.get("stream"):
            time.sleep(3 * e.pause)
            e.count()
            message = {"role": "assistant", "content": "ne..."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.reply(200, {"choices": [choice], "usage": self.usage(body, e.per_answer)})
            return
        self.begin()
        self.event({"choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": self.usage(body, 0)})
        said = {"reasoning": "Hm."} if e.thinking else {"content": "ne"}
        self.event({"choices": [{"delta": said}], "usage": self.usage(body, 1)})
        if body["max_tokens"] > 1:
            last = {"delta": {"content": "..."}, "finish_reason": "stop"}
            self.event({"choices": [last], "usage": self.usage(body, e.per_answer)})
            e.count()
            if e.log:
                with open(e.log, "a") as f:
                    f.write(e.log_line)
        self.event({"choices": [], "usage": self.usage(body, e.per_answer if body["max_tokens"] > 1 else 1)})
        self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, data: dict) -> None:
        time.sleep(self.engine.pause)
        line = b"data: " + json.dumps(data).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    @staticmethod
    def usage(body: dict, tokens: int) -> dict:
        prompt = len(body["messages"][0]["content"]) // 4 or 1
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

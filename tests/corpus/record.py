"""Record the corpus: logs of a real vLLM on CPU, each brought about by one fault that happens to people.

    record.py --vllm BIN --pair DIR [--port N] [NAME ...]

DIR holds the tiny pair (target/, draft/). The paths of this machine are replaced by /opt/vllm and /srv/models on the way
out, addresses by those kept for documentation. Labels are not written here: labels.json is written by hand, by reading.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from typing import Any, Callable

LOGS = pathlib.Path(__file__).parent / "logs"
READY = b"Application startup complete."


class Server:
    """One start of the engine, with its output in one file."""

    def __init__(self, vllm: str, pair: pathlib.Path, port: int, work: pathlib.Path) -> None:
        self.vllm, self.pair, self.port, self.work = vllm, pair, port, work
        self.log = work / "server.log"
        self.process: subprocess.Popen[bytes]
        self.environment: dict[str, str] = {}

    def draft(self, **changes: Any) -> str:
        """A drafter with some values of its config changed; dflash_config's own are found by name."""
        copy = self.work / "draft"
        shutil.copytree(self.pair / "draft", copy)
        path = copy / "config.json"
        config = json.loads(path.read_text())
        for key, value in changes.items():
            holder = config["dflash_config"] if key in config.get("dflash_config", {}) else config
            holder[key] = value
        path.write_text(json.dumps(config, indent=2))
        return str(copy)

    def start(self, *extra: str, model: str = "", draft: str = "", speculative: str = "") -> None:
        spec = speculative or json.dumps(
            {"method": "dflash", "model": draft or str(self.pair / "draft"), "num_speculative_tokens": 7}
        )
        command = [
            self.vllm,
            "serve",
            model or str(self.pair / "target"),
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        command += ["--served-model-name", "tiny", "--max-model-len", "512", "--max-num-seqs", "4", "--enforce-eager"]
        command += ["--dtype", "float32", "--max-num-batched-tokens", "512", "--speculative-config", spec]
        if "--kv-cache-memory-bytes" not in extra:
            command += ["--kv-cache-memory-bytes", "64M"]
        environment = {**os.environ, "VLLM_LOG_STATS_INTERVAL": "2", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                command + list(extra),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**environment, **self.environment},
                start_new_session=True,
            )

    def until(self, text: bytes, limit: float = 240) -> None:
        end = time.monotonic() + limit
        while text not in self.log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{text!r} never came:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def ended(self, limit: float = 240) -> int:
        return self.process.wait(limit)

    def engine(self) -> int:
        """Process id of the engine core, as its own log lines name it."""
        self.until(b"(EngineCore pid=")
        match = re.search(rb"\(EngineCore pid=(\d+)\)", self.log.read_bytes())
        assert match
        return int(match[1])

    def ask(self, prompt: str, timeout: float = 60) -> None:
        body = {"model": "tiny", "temperature": 0, "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            answer.read()

    def clear(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def ready(server: Server) -> None:
    server.start()
    server.until(READY)


def ready_tp2(server: Server) -> None:
    server.environment["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    server.start("--tensor-parallel-size", "2")
    server.until(READY)


def accepting(server: Server, **changes: Any) -> None:
    server.start(draft=server.draft(**changes) if changes else "")
    server.until(READY)
    for chapter in range(1, 9):
        server.ask(f"Recite chapter {chapter}")
    server.until(b"SpecDecoding metrics")


def not_accepting(server: Server) -> None:
    accepting(server, layer_types=["full_attention"] * 3)


def refused_request(server: Server) -> None:
    """A request that the server refuses: noise in the log of a healthy server."""
    ready(server)
    for prompt in ("word " * 2000, "Recite chapter 1"):
        with contextlib.suppress(OSError):
            server.ask(prompt)
    server.until(b"SpecDecoding metrics")


def quiet(server: Server) -> None:
    """The log's level hides the ready line."""
    server.environment["VLLM_LOGGING_LEVEL"] = "WARNING"
    server.start("--uvicorn-log-level", "warning")
    end = time.monotonic() + 240
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/models", timeout=5):
                return
        except OSError:
            time.sleep(0.2)


def port_in_use(server: Server) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", server.port))
        holder.listen()
        server.start()
        server.ended()


def wrong_model_path(server: Server) -> None:
    server.start(model=str(server.pair / "nope"))
    server.ended()


def corrupt_drafter_config(server: Server) -> None:
    draft = server.draft()
    path = pathlib.Path(draft) / "config.json"
    path.write_text(path.read_text()[:-40])
    server.start(draft=draft)
    server.ended()


def fc_shape(server: Server) -> None:
    server.start(draft=server.draft(target_layer_ids=[1, 3]))
    server.ended()


def fc_shape_tp2(server: Server) -> None:
    server.environment["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    server.start("--tensor-parallel-size", "2", draft=server.draft(target_layer_ids=[1, 3]))
    server.ended()


def kv_memory(server: Server) -> None:
    server.start("--kv-cache-memory-bytes", "500G")
    server.ended()


def no_window(server: Server) -> None:
    server.start(draft=server.draft(sliding_window=None, use_sliding_window=False))
    server.ended()


def unknown_flag(server: Server) -> None:
    server.start("--no-such-flag", "1")
    server.ended()


def bad_spec_json(server: Server) -> None:
    server.start(speculative='{"method": "dflash", "model": ')
    server.ended()


def too_long(server: Server) -> None:
    """A refusal by pydantic, whose message spans lines."""
    server.start("--max-model-len", "999999")
    server.ended()


def no_tokens(server: Server) -> None:
    spec = {"method": "dflash", "model": str(server.pair / "draft"), "num_speculative_tokens": 0}
    server.start(speculative=json.dumps(spec))
    server.ended()


def killed_engine_at_start(server: Server) -> None:
    server.start()
    os.kill(server.engine(), signal.SIGKILL)
    server.ended()


def killed_engine_when_ready(server: Server) -> None:
    ready(server)
    os.kill(server.engine(), signal.SIGKILL)
    server.ended()


def killed_server_at_start(server: Server) -> None:
    server.start()
    server.engine()
    server.clear()


def dies_on_first_request(server: Server) -> None:
    server.start(draft=server.draft(mask_token_id=5000))
    server.until(READY)
    with contextlib.suppress(OSError):
        server.ask("Recite chapter 1")
    server.ended()


def stopped_cleanly(server: Server) -> None:
    ready(server)
    server.ask("Recite chapter 1")
    server.process.terminate()
    server.ended()


def interrupted_at_start(server: Server) -> None:
    """By SIGINT: this vLLM swallows a SIGTERM that comes before its HTTP server has started, and goes on."""
    server.start()
    server.engine()
    server.process.send_signal(signal.SIGINT)
    server.ended()


CASES: dict[str, Callable[[Server], None]] = {
    name.replace("_", "-"): case
    for name, case in list(globals().items())
    if callable(case) and getattr(case, "__module__", "") == __name__ and not name.startswith("_") and name != "Server"
}


def scrub(raw: bytes, vllm: str, pair: pathlib.Path, work: pathlib.Path, port: int) -> bytes:
    venv = pathlib.Path(vllm).parent.parent
    for here, there in (
        (str(venv), "/opt/vllm/builds/b1/venv"),
        (str(work), "/srv/models/changed"),
        (str(pair), "/srv/models/tiny"),
        (str(port), "8000"),
    ):
        raw = raw.replace(here.encode(), there.encode())
    raw = re.sub(rb"/[\w./-]+/lib/python3\.(\d+)/(?!site-packages)", rb"/usr/lib/python3.\1/", raw)
    return re.sub(rb"\b(?!127\.0\.0\.1|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?= \(local\)|:\d{4,5}\b)", b"192.0.2.2", raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", required=True)
    parser.add_argument("--pair", required=True, type=pathlib.Path)
    parser.add_argument("--port", type=int, default=18731)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    LOGS.mkdir(exist_ok=True)
    for name in arguments.names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            server = Server(arguments.vllm, arguments.pair, arguments.port, work)
            try:
                CASES[name](server)
                raw = server.log.read_bytes()
                print(name, "ended:", server.process.poll(), flush=True)
            finally:
                if hasattr(server, "process"):
                    server.clear()
            (LOGS / f"{name}.log").write_bytes(scrub(raw, arguments.vllm, arguments.pair, work, arguments.port))


if __name__ == "__main__":
    main()

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a running server: each with a deadline, and a reason in words where no answer comes."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

# What isn't generation is answered at once, or the server is in trouble.
PATIENCE = 10.0


class NoAnswerError(Exception):
    """The server gave no usable answer."""

    def __init__(self, cause: str, evidence: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.evidence = evidence
        self.remedy = remedy


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    max_model_len: int | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """One generation. steps: prompt and generated tokens so far, as each piece of the stream arrived."""

    prompt_tokens: int
    tokens: int
    first_token: float | None
    seconds: float
    thinking: bool
    steps: tuple[tuple[int, int], ...] = ()


class Server:
    """A vLLM server at a url, the root above /v1."""

    def __init__(self, url: str, api_key: str | None = None, validate_certs: bool = True) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must look like http://127.0.0.1:8000, not {url!r}")
        self.url = url.rstrip("/")
        self._host, self._port, self._root = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        if self._tls and not validate_certs:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise ValueError("api_key holds characters that an HTTP header can't carry (a line break?)")
            self._headers["Authorization"] = f"Bearer {api_key}"

    def models(self, deadline: float) -> list[Model]:
        status, text = self._ask("GET", "/v1/models", None, _soon(deadline))
        if status != 200:
            raise self._refusal(status, text, "/v1/models")
        try:
            return [Model(m["id"], m.get("max_model_len")) for m in json.loads(text)["data"]]
        except (ValueError, KeyError, TypeError):
            raise NoAnswerError(
                f"what answers at {self.url} is not vLLM's server",
                f"/v1/models gave {_short(text)!r}",
                "Give the url of the server itself.",
            ) from None

    def version(self, deadline: float) -> str | None:
        found = self._optional("/version", deadline).get("version")
        return found if isinstance(found, str) else None

    def sleeping(self, deadline: float) -> bool:
        """Whether the engine says that it sleeps; the endpoint exists only in development mode."""
        return self._optional("/is_sleeping", deadline).get("is_sleeping") is True

    def metrics(self, deadline: float) -> str | None:
        """The text of /metrics; None where the server has none to show."""
        try:
            status, text = self._ask("GET", "/metrics", None, _soon(deadline))
        except NoAnswerError:
            return None
        return text if status == 200 else None

    def health(self) -> str:
        try:
            return f"/health says {self._ask('GET', '/health', None, time.monotonic() + PATIENCE)[0]}"
        except NoAnswerError as e:
            return f"/health gives no answer ({e.evidence})"

    def count_tokens(self, model: str, text: str, deadline: float) -> int | None:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        found = self._optional("/tokenize", deadline, body).get("count")
        return found if isinstance(found, int) else None

    def generate(self, body: dict[str, Any], deadline: float) -> Answer:
        """Stream one chat completion. NoAnswerError if it is refused, breaks off, or isn't over by the deadline."""
        begun = time.monotonic()
        first: float | None = None
        thinking, prompt_tokens = False, 0
        steps: list[int] = []
        body = {**body, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        try:
            for event in self._stream("/v1/chat/completions", body, deadline):
                if "error" in event:
                    raise self._broken(_message(event), steps)
                usage = event.get("usage") or {}
                prompt_tokens = usage.get("prompt_tokens", prompt_tokens)
                if usage.get("completion_tokens", 0) > (steps[-1] if steps else 0):
                    steps.append(usage["completion_tokens"])
                    first = first or time.monotonic() - begun
                for choice in event.get("choices") or []:
                    said = choice.get("delta") or {}
                    thinking = thinking or bool(said.get("reasoning") or said.get("reasoning_content"))
                    thinking = thinking or "<think>" in (said.get("content") or "")
        except socket.timeout:
            raise self._late(time.monotonic() - begun, steps, body) from None
        except (OSError, http.client.HTTPException) as e:
            raise self._broken(_reason(e), steps) from None
        return Answer(
            prompt_tokens,
            steps[-1] if steps else 0,
            first,
            time.monotonic() - begun,
            thinking,
            tuple((prompt_tokens, n) for n in steps),
        )

    def _late(self, seconds: float, steps: list[int], body: dict[str, Any]) -> NoAnswerError:
        if steps:
            return NoAnswerError(
                f"an answer was not complete within {seconds:.0f} s",
                f"{steps[-1]} of at most {body.get('max_tokens')} tokens had come; {self.health()}",
                "If the tokens stopped coming, the engine hangs: its log has the last word. If they are just slow, "
                "raise request_timeout or lower max_tokens.",
            )
        return NoAnswerError(
            f"the engine hangs: not one token within {seconds:.0f} s",
            f"{self.health()}, which only proves that the HTTP server lives",
            "Look at the last lines of the server's log, and restart it. If it is only overloaded or has a very long "
            "queue, raise request_timeout.",
        )

    def _broken(self, reason: str, steps: list[int]) -> NoAnswerError:
        return NoAnswerError(
            "the engine failed while answering" if steps else "the engine failed at the request",
            f"{reason}; {self.health()}",
            "The server's log names the cause (look above its last lines). A drafter config with target_layer_ids "
            "beyond the target's layers, or a mask_token_id outside the vocabulary, loads and dies like this.",
        )

    def _refusal(self, status: int, text: str, path: str) -> NoAnswerError:
        evidence = f"{path} answered {status}: {_said(text)}"
        if status in (401, 403):
            return NoAnswerError(
                "the server is alive but refuses the API key",
                evidence,
                "Give the right api_key (the server's --api-key).",
            )
        if status == 404 and path == "/v1/models":
            return NoAnswerError(
                f"{self.url} has no /v1/models",
                evidence,
                "Give the server's root as url, without /v1; a headless rank serves no HTTP.",
            )
        if status >= 500:
            return self._broken(evidence, [])
        return NoAnswerError("the server refuses the request", evidence, "Change what it names.")

    def _optional(self, path: str, deadline: float, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object at a path that not every server has; empty where it has none."""
        try:
            status, text = self._ask("POST" if body else "GET", path, body, _soon(deadline))
            found = json.loads(text) if status == 200 else {}
        except (NoAnswerError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, deadline: float) -> tuple[int, str]:
        try:
            with self._send(method, path, body, deadline) as (status, pieces):
                return status, _text(pieces)
        except (OSError, http.client.HTTPException) as e:
            raise self._unreached(e) from None

    def _unreached(self, error: Exception) -> NoAnswerError:
        if isinstance(error, ConnectionRefusedError):
            return NoAnswerError(
                f"nothing listens at {self.url}",
                str(error),
                "Start the server, or wait for it with log_wait, or give its real url.",
            )
        return NoAnswerError(
            f"{self.url} can't be reached", _reason(error), "Check url, the network and the server's log."
        )

    def _stream(self, path: str, body: dict[str, Any], deadline: float) -> Iterator[dict[str, Any]]:
        with self._send("POST", path, body, deadline) as (status, pieces):
            if status != 200:
                raise self._refusal(status, _text(pieces), path)
            rest = b""
            for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: {"):
                        yield json.loads(line[6:])

    @contextlib.contextmanager
    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, deadline: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status, and the body as it comes. A socket's timeout counts from its last byte, hence it is set anew."""
        connection = self._connection(_left(deadline))
        try:
            connection.request(method, self._root + path, json.dumps(body) if body else None, self._headers)
            sock = connection.sock
            sock.settimeout(_left(deadline))
            response = connection.getresponse()

            def pieces() -> Iterator[bytes]:
                while not response.isclosed():
                    sock.settimeout(_left(deadline))
                    piece = response.read1(65536)
                    if not piece:
                        return
                    yield piece

            yield response.status, pieces()
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


def _text(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("the time is over")
    return left


def _soon(deadline: float) -> float:
    return min(deadline, time.monotonic() + PATIENCE)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _said(text: str) -> str:
    """What an error's body says, without its wrapping."""
    try:
        return _message(json.loads(text))
    except ValueError:
        return _short(text)


def _message(body: Any) -> str:
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and key in body:
            body = body[key]
    return _short(body if isinstance(body, str) else json.dumps(body))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:300] + "..."

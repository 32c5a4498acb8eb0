# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a running server: each with a deadline, and the reason in words where no answer comes."""

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

# Whatever isn't generation is answered at once, or the server is in trouble.
PATIENCE = 10.0
WANTS_KEY = "The server is alive but wants another API key"


class NoAnswerError(Exception):
    """The server gave no usable answer. Each argument is a sentence or two without its last full stop."""

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
    """One generation. first_token: seconds until it came; None if none did."""

    prompt_tokens: int
    tokens: int
    first_token: float | None
    thinking: bool


class Server:
    """A vLLM server. url is its root, above /v1."""

    def __init__(self, url: str, api_key: str | None = None, validate_certs: bool = True) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("url must look like http://127.0.0.1:8000, and the key belongs into api_key")
        self.url = url.rstrip("/")
        self._host, self._port, self._root = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        if self._tls and not validate_certs:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise ValueError("api_key holds a character that an HTTP header can't carry (a line break?)")
            self._headers["Authorization"] = f"Bearer {api_key}"

    def models(self, deadline: float) -> list[Model]:
        status, text = self._ask("GET", "/v1/models", None, deadline)
        if status != 200:
            raise self._refused("/v1/models", status, text)
        try:
            return [Model(m["id"], m.get("max_model_len")) for m in json.loads(text)["data"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NoAnswerError(
                f"What answers at {self.url} is not vLLM",
                f"/v1/models gave {_short(text)!r}",
                "Give the url of the server itself",
            ) from None

    def version(self, deadline: float) -> str | None:
        found = self._optional("/version", None, deadline).get("version")
        return found if isinstance(found, str) else None

    def sleeping(self, deadline: float) -> bool:
        """Whether it says that it sleeps; it has the endpoint in development mode only."""
        return self._optional("/is_sleeping", None, deadline).get("is_sleeping") is True

    def metrics(self, deadline: float) -> tuple[int, str]:
        """Status and text of /metrics."""
        return self._ask("GET", "/metrics", None, deadline)

    def count_tokens(self, model: str, text: str, deadline: float) -> int | None:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        found = self._optional("/tokenize", body, deadline).get("count")
        return found if isinstance(found, int) else None

    def health(self) -> str:
        try:
            return f"/health says {self._ask('GET', '/health', None, time.monotonic() + PATIENCE)[0]}"
        except NoAnswerError as e:
            return f"/health gives no answer ({e.evidence})"

    def generate(self, body: dict[str, Any], deadline: float) -> Answer:
        """Stream one chat completion. NoAnswerError if it is refused, breaks off, or isn't over by the deadline."""
        begun = time.monotonic()
        first: float | None = None
        prompt_tokens, tokens, thinking = 0, 0, False
        body = {**body, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        try:
            for event in self._events("/v1/chat/completions", body, deadline):
                if "error" in event:
                    raise self._broken(_message(event), tokens)
                usage = event.get("usage") or {}
                prompt_tokens = usage.get("prompt_tokens", prompt_tokens)
                tokens = usage.get("completion_tokens", tokens)
                if tokens and first is None:
                    first = time.monotonic() - begun
                for choice in event.get("choices") or []:
                    said = choice.get("delta") or {}
                    thinking = thinking or bool(said.get("reasoning") or said.get("reasoning_content"))
                    thinking = thinking or "<think>" in (said.get("content") or "")
        except socket.timeout:
            raise self._late(time.monotonic() - begun, tokens) from None
        except ConnectionRefusedError as e:
            raise self._broken(f"The server is gone ({e})", tokens) from None
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise self._broken(f"The answer broke off ({_reason(e)})", tokens) from None
        if not prompt_tokens:
            raise NoAnswerError(
                "The answer does not say how many tokens it took",
                "The stream of /v1/chat/completions held no usage",
                "Ask the server itself and not a gateway before it",
            )
        return Answer(prompt_tokens, tokens, first, thinking)

    def _late(self, seconds: float, tokens: int) -> NoAnswerError:
        if tokens:
            return NoAnswerError(
                f"An answer was not complete within {round(seconds, 1):g} s",
                f"{tokens} tokens of it had come; {self.health()}",
                "If tokens come slowly, raise request_timeout or lower max_tokens. If they stopped coming, the engine "
                "hangs: see its log",
            )
        return NoAnswerError(
            f"The engine hangs: not one token within {round(seconds, 1):g} s",
            f"{self.health()}; that only proves that the HTTP server lives",
            "Read the last lines of the server's log and restart it. If it has a long queue instead, raise "
            "request_timeout; an older engine that sleeps looks the same",
        )

    def _broken(self, reason: str, tokens: int) -> NoAnswerError:
        return NoAnswerError(
            "The engine failed while it answered" if tokens else "The engine failed when it was asked",
            f"{reason}; {self.health()}",
            "Read the server's log: the cause stands above its last lines. If this was the first request after the "
            "start, check the drafter's config.json with drafter_info: target_layer_ids beyond the target's layers or "
            "a mask_token_id outside the vocabulary load without complaint and fail just here",
        )

    def _refused(self, path: str, status: int, text: str) -> NoAnswerError:
        evidence = f"{path} answered {status}: {_message(text)}"
        if status in (401, 403):
            key = "was sent" if "Authorization" in self._headers else "was not sent"
            return NoAnswerError(
                WANTS_KEY,
                f"{evidence}; a key {key}",
                "Set api_key to one that the server was started with (--api-key)",
            )
        if status == 404 and path == "/v1/models":
            return NoAnswerError(
                f"There is no /v1/models at {self.url}",
                evidence,
                "Give the root of the server as url, without /v1",
            )
        if status >= 500:
            return self._broken(evidence, 0)
        return NoAnswerError("The server refuses the request", evidence, "Change the option that it complains about")

    def _unreached(self, error: Exception) -> NoAnswerError:
        if isinstance(error, ConnectionRefusedError):
            return NoAnswerError(
                f"Nothing listens at {self.url}",
                str(error),
                "Start the server, wait until it is ready, or give its real url",
            )
        if isinstance(error, ssl.SSLError):
            return NoAnswerError(
                f"No trusted connection to {self.url}",
                str(error),
                "Use http if it speaks no TLS; set validate_certs to false if its certificate is of its own making",
            )
        return NoAnswerError(
            f"{self.url} does not answer",
            _reason(error),
            "Check the url and the network, and read the server's log",
        )

    def _optional(self, path: str, body: dict[str, Any] | None, deadline: float) -> dict[str, Any]:
        """The JSON object at a path that not every server has; empty where there is none."""
        try:
            status, text = self._ask("POST" if body else "GET", path, body, deadline)
            found = json.loads(text) if status == 200 else {}
        except (NoAnswerError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, deadline: float) -> tuple[int, str]:
        try:
            with self._send(method, path, body, min(deadline, time.monotonic() + PATIENCE)) as (status, pieces):
                return status, _text(pieces)
        except (OSError, http.client.HTTPException) as e:
            raise self._unreached(e) from None

    def _events(self, path: str, body: dict[str, Any], deadline: float) -> Iterator[dict[str, Any]]:
        with self._send("POST", path, body, deadline) as (status, pieces):
            if status != 200:
                raise self._refused(path, status, _text(pieces))
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
        """Status, and the body as it comes. A socket's timeout counts from its last byte, so it is set anew each time."""
        connection: http.client.HTTPConnection
        if self._tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=_left(deadline), context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=_left(deadline))
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


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _text(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _message(body: Any) -> str:
    """What an error's body says, without its wrapping."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return _short(body)
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and key in body:
            body = body[key]
    return _short(body if isinstance(body, str) else json.dumps(body))


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= 300 else text[:300] + " ..."

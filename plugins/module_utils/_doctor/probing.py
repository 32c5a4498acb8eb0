# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live probe of a server, for who asks for it: a few real requests, with its own key, in its own network."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges, namespaces, servers
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import WARNING, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine import diagnosis, prompts, verdict
from ansible_collections.llmops.vllm.plugins.module_utils._engine import probe as measuring
from ansible_collections.llmops.vllm.plugins.module_utils._engine import requests as asking
from ansible_collections.llmops.vllm.plugins.module_utils._host import ports, processes
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK

REQUESTS, SECONDS = (1, 32), (5, 600)
"""The least and the most that may be asked for."""
TOKENS = 128  # an answer's most
DRAFTS = 10  # fewer of which tell nothing
SLACK = 30  # seconds in which a probe says that it was too slow


@dataclasses.dataclass(frozen=True)
class Asked:
    """How many requests a server gets in how many seconds. prompts: what they ask, as they are; without, what is built in."""

    requests: int = 4
    seconds: float = 60
    prompts: Sequence[str] = ()

    def refused(self) -> str:
        """What is wrong with that, in words; empty if nothing is."""
        for name, value, (least, most) in (
            ("probe_requests", self.requests, REQUESTS),
            ("probe_timeout", self.seconds, SECONDS),
        ):
            if not least <= value <= most:
                return f"{name} is {value:g}: it must be from {least} to {most}, so that a probe stays a small load."
        return "" if all(text.strip() for text in self.prompts) else "probe_prompts holds an empty prompt."


def probe(subject: Subject, asked: Asked) -> dict[str, Any]:
    """What a probe found, or that there was none and why: verdict, cause, and where it has them evidence, remedy and figures."""
    why = hindrance(subject)
    if why:
        return {"verdict": "not probed", "cause": why}
    pid = subject.server.pid
    found = dict(namespaces.at_network(pid, lambda: _ask(subject, asked), asked.seconds + SLACK))
    remedy = found.pop("unseen", "")
    if remedy:
        subject.unseen.append(
            Finding("sight", WARNING, f"Pid {pid} was not probed: {found['cause']}.", f"/proc/{pid}", remedy)
        )
    return found


def hindrance(subject: Subject) -> str:
    """Why a server is not probed; empty if nothing speaks against it."""
    server = subject.server
    if not subject.url(not namespaces.other_network(server.pid)):
        return "it has no address that could be asked"
    if server.listens and server.port not in server.listens:
        return f"what answers on port {server.port} is another process"
    if subject.counters.asleep:
        return "it sleeps, and a request could end it"
    return "" if subject.answers else "it gives no answer"


def _stranger(subject: Subject) -> tuple[str, str]:
    """Why what would be asked now may be another's, who would be sent the key, and the remedy; both empty if it is the server."""
    server = subject.server
    try:
        here = os.readlink(f"/proc/{server.pid}/ns/net")
        os.listdir(f"/proc/{server.pid}/fd")
    except OSError as e:
        return f"whether it holds port {server.port} can't be seen ({e.strerror})", judges.ROOT
    # A worker in a network of its own does not hold the port of this one.
    own = [pid for pid in servers.own(server.pid) if _link(f"/proc/{pid}/ns/net") == here]
    held = {port for pid in own for port in ports.listened(pid)}
    # Asked last, so that all of the above was of the same process.
    if server.started is None or processes.start_ticks(server.pid) != server.started:
        return "it has ended since it was found, or another process has its pid", "Run the doctor again."
    if server.port not in held:
        return f"none of its processes that can be seen listens on port {server.port}", "Look what holds the port."
    return "", ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


class _Discreet(asking.Server):
    """A server that may send the key back: it is taken out of what is told before that is shortened or quoted."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key or None, validate_certs=False)
        self._key = key

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, deadline: float) -> tuple[int, str]:
        status, text = super()._ask(method, path, body, deadline)
        # What is as it should be is not told, and is read as it is: a short key may be in any name or number.
        return status, text if path != "/v1/models" or _lists_models(text) else _without(text, self._key)

    def _events(self, path: str, body: dict[str, Any], deadline: float) -> Iterator[dict[str, Any]]:
        for event in super()._events(path, body, deadline):
            yield {"error": _hidden(event["error"], self._key)} if "error" in event else event

    def _refused(self, path: str, status: int, text: str) -> asking.NoAnswerError:
        return super()._refused(path, status, _without(text, self._key))


def _lists_models(text: str) -> bool:
    try:
        return bool([model["id"] for model in json.loads(text)["data"]])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _without(text: str, key: str) -> str:
    """A text, JSON or not, without the key, however it is written in there."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str)
        hidden = _hidden(value, key)
        text = text if hidden == value else json.dumps(hidden)
    except (ValueError, RecursionError):
        pass
    return str(_hidden(text, key))


def _hidden(value: Any, key: str) -> Any:
    """The same of what was JSON, or is to be."""
    if isinstance(value, Mapping):
        return {_hidden(name, key): _hidden(one, key) for name, one in value.items()}
    if isinstance(value, list):
        return [_hidden(one, key) for one in value]
    key = key.strip()  # a header carries no space at its end
    if isinstance(value, str) and key:
        quoted = key.replace("\\", "\\\\")  # as JSON and Python write it, by either quote
        for form in (quoted.replace('"', '\\"'), quoted.replace("'", "\\'"), quoted, key):
            value = value.replace(form, MASK)
    return value


def _ask(subject: Subject, asked: Asked) -> dict[str, Any]:
    """What the probe brain says of a server that is reached from here."""
    key, told = subject.server.key, {}  # type: str, dict[str, Any]
    stranger, remedy = _stranger(subject)
    if stranger:
        return {"verdict": "not probed", "cause": stranger, "unseen": remedy}
    try:
        client = _Discreet(subject.url(True), key)
        measurement = measuring.measure(client, _plan(asked))
    except asking.NoAnswerError as e:
        unknown = not key and e.cause == asking.WANTS_KEY
        told = {"verdict": "keyless" if unknown else "unreachable", "cause": e.cause, "evidence": e.evidence, "remedy": e.remedy}  # fmt: skip
    except ValueError as e:
        told = {"verdict": "not probed", "cause": str(e)}
    else:
        judged, pattern = verdict.judge(measurement, verdict.Wanted(min_drafts=DRAFTS)), diagnosis.read(measurement)
        if judged.verdict != "pass":
            pattern = diagnosis.Pattern(judged.says, judged.pattern.remedy)
        told = {
            "verdict": judged.verdict, "cause": pattern.cause, "evidence": judged.evidence, "remedy": pattern.remedy, "ill": pattern.ill,
            **{name: value for name, value in measurement.whole.figures().items() if name != "cache_hits"},
        }  # fmt: skip
    # Whatever answers may send back what it was sent, also where no answer should be: in its status line.
    return {**told, "evidence": _hidden(told["evidence"], key)} if told.get("evidence") else told


def _plan(asked: Asked) -> measuring.Plan:
    return measuring.Plan(
        prompts=asked.prompts or prompts.BUILT_IN,
        phases=("short",),
        requests=asked.requests,
        max_tokens=TOKENS,
        unique_prefix=not asked.prompts,
        request_timeout=asked.seconds,
        timeout=asked.seconds,
    )

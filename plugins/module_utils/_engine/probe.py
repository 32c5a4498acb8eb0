# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The measurement: real requests, and what the engine counted meanwhile."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine import metrics, prompts
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import Answer, NoAnswerError, Server

PHASES = ("short", "long", "repeated")
# The engine counts a step just after it has sent it, and logs its figures every ten seconds unless told otherwise.
SETTLE_METRICS = 5.0
SETTLE_LOG = 30.0


@dataclasses.dataclass(frozen=True)
class Plan:
    model: str | None
    prompts: Sequence[str]
    phases: Sequence[str]
    requests: int
    concurrency: int
    max_tokens: int
    long_tokens: int
    unique_prefix: bool
    request_timeout: float
    timeout: float
    chat_template_kwargs: dict[str, Any]
    log: str | None = None


@dataclasses.dataclass(frozen=True)
class Phase:
    """What one phase measured. counted: tokens that the engine generated meanwhile, for whomever."""

    answers: Sequence[Answer]
    seconds: float
    drafting: metrics.Drafting | None = None
    counted: float | None = None
    cache_hits: float = 0

    @property
    def tokens(self) -> int:
        return sum(a.tokens for a in self.answers)

    @property
    def time_to_first_token(self) -> float | None:
        times = [a.first_token for a in self.answers if a.first_token is not None]
        return statistics.median(times) if times else None

    def __add__(self, other: Phase) -> Phase:
        return Phase(
            [*self.answers, *other.answers],
            self.seconds + other.seconds,
            _sum(self.drafting, other.drafting),
            _sum(self.counted, other.counted),
            self.cache_hits + other.cache_hits,
        )


@dataclasses.dataclass(frozen=True)
class Measurement:
    """source: where the figures come from, metrics or log; None if the engine shows neither."""

    model: str
    version: str | None
    source: str | None
    phases: dict[str, Phase]

    @property
    def whole(self) -> Phase:
        first, *rest = self.phases.values()
        return sum(rest, first)


def measure(server: Server, plan: Plan) -> Measurement:
    """Run every phase of the plan. NoAnswerError if the server can't be measured at all."""
    deadline = time.monotonic() + plan.timeout
    model, room = _choose(server, plan, deadline)
    version = server.version(deadline)
    text = server.metrics(deadline)
    readable = text is not None and metrics.read(text).generated is not None
    source = "metrics" if readable else "log" if plan.log else None
    if (text is not None and metrics.read(text).asleep) or server.sleeping(deadline):
        raise NoAnswerError(
            "the engine sleeps",
            "it says so itself (sleep mode), while /health says 200",
            "Wake it with POST /wake_up, then probe again.",
        )
    phases = {name: _phase(name, server, plan, model, room, source, deadline) for name in plan.phases}
    return Measurement(model, version, source, phases)


def _choose(server: Server, plan: Plan, deadline: float) -> tuple[str, int | None]:
    models = server.models(deadline)
    for m in models:
        if plan.model in (None, m.name):
            return m.name, m.max_model_len
    raise NoAnswerError(
        f"the server does not serve a model named {plan.model!r}" if plan.model else "the server serves no model",
        f"/v1/models lists {', '.join(repr(m.name) for m in models) or 'nothing'}",
        "Leave model out to take what is served, or start the server with --served-model-name.",
    )


def _phase(
    name: str, server: Server, plan: Plan, model: str, room: int | None, source: str | None, deadline: float
) -> Phase:
    asked = _texts(name, server, plan, model, room, deadline)
    bodies = [
        {
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": plan.max_tokens,
            **({"chat_template_kwargs": plan.chat_template_kwargs} if plan.chat_template_kwargs else {}),
        }
        for text in asked
    ]
    if name == "repeated":
        _send([{**b, "max_tokens": 1} for b in bodies], server, plan, deadline)
    before = _counters(server, deadline) if source == "metrics" else metrics.Counters()
    mark = os.path.getsize(plan.log) if source == "log" and plan.log else 0
    begun = time.monotonic()
    answers = _send(bodies, server, plan, deadline)
    phase = Phase(answers, time.monotonic() - begun)
    if source == "metrics":
        moved = _settled(server, before, phase.tokens, deadline)
        return dataclasses.replace(phase, drafting=moved.drafting, counted=moved.generated, cache_hits=moved.cache_hits)
    if source == "log" and plan.log:
        return dataclasses.replace(phase, drafting=_logged(plan.log, mark, phase, deadline))
    return phase


def _texts(name: str, server: Server, plan: Plan, model: str, room: int | None, deadline: float) -> list[str]:
    """The prompts of a phase. A prefix of its own keeps a request out of the reach of the prefix cache."""
    nonce = os.urandom(4).hex()
    before = ""
    if name == "long" or (name == "repeated" and plan.unique_prefix):
        size = plan.long_tokens if name == "long" else plan.long_tokens // 4
        sample = prompts.filler(2000)
        per_token = len(sample) / (server.count_tokens(model, sample, deadline) or len(sample) / 4)
        if room:
            # What the longest prompt, its prefix and the answer leave, with a tenth to spare.
            longest = max(len(p) for p in plan.prompts) / per_token + 64
            size = min(size, int((room - plan.max_tokens - longest) * 0.9))
        before = prompts.filler(int(max(size, 0) * per_token)) + "\n\n"
    asked = []
    for n, prompt in enumerate(itertools.islice(itertools.cycle(plan.prompts), plan.requests)):
        mark = nonce if name == "repeated" else f"{nonce}-{n}"
        prefix = f"[{mark}]\n" if plan.unique_prefix else ""
        asked.append(prefix + before + prompt)
    return asked


def _send(bodies: Sequence[dict[str, Any]], server: Server, plan: Plan, deadline: float) -> list[Answer]:
    def one(body: dict[str, Any]) -> Answer:
        return server.generate(body, min(deadline, time.monotonic() + plan.request_timeout))

    with concurrent.futures.ThreadPoolExecutor(plan.concurrency) as pool:
        sent = [pool.submit(one, body) for body in bodies]
        try:
            return [s.result() for s in sent]
        except NoAnswerError:
            for s in sent:
                s.cancel()
            raise


def _counters(server: Server, deadline: float) -> metrics.Counters:
    text = server.metrics(deadline)
    if text is None:
        raise NoAnswerError("/metrics stopped answering during the probe", server.health(), "Look at the server's log.")
    return metrics.read(text)


def _settled(server: Server, before: metrics.Counters, tokens: int, deadline: float) -> metrics.Counters:
    """The delta of the counters once they hold all our own tokens, or don't want to."""
    until = min(deadline, time.monotonic() + SETTLE_METRICS)
    while True:
        try:
            moved = metrics.delta(before, _counters(server, deadline))
        except metrics.CountersResetError:
            raise NoAnswerError(
                "the server was restarted during the probe",
                "its counters went back",
                "Find out why (log, exit record), wait until it is ready, and probe again.",
            ) from None
        if (moved.generated or 0) >= tokens or time.monotonic() > until:
            return moved
        time.sleep(0.05)


def _logged(path: str, mark: int, phase: Phase, deadline: float) -> metrics.Drafting | None:
    """The figures that the log gained. A draft yields its accepted tokens and one more; the first token needs none."""
    until = min(deadline, time.monotonic() + SETTLE_LOG)
    wanted = phase.tokens - 2 * len(phase.answers)
    while True:
        with open(path, encoding="utf-8", errors="replace") as f:
            f.seek(mark)
            found = metrics.read_lines(f)
        if (found and found.drafts + found.accepted >= wanted) or time.monotonic() > until:
            return found
        time.sleep(0.25)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b

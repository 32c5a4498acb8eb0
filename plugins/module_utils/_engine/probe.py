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

from ansible_collections.llmops.vllm.plugins.module_utils._engine import metrics, prompts, sources
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import Answer, NoAnswerError, Server

PHASES = ("short", "long", "repeated")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be asked; the options of the module."""

    prompts: Sequence[str]
    phases: Sequence[str]
    requests: int
    model: str | None = None
    concurrency: int = 1
    max_tokens: int = 256
    long_tokens: int = 4096
    unique_prefix: bool = True
    request_timeout: float = 120
    timeout: float = 900
    chat_template_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    log: str | None = None


@dataclasses.dataclass(frozen=True)
class Phase:
    """What was measured in one phase. counted: what the engine did meanwhile, for whomever."""

    answers: Sequence[Answer]
    seconds: float
    counted: metrics.Counters

    @property
    def tokens(self) -> int:
        return sum(a.tokens for a in self.answers)

    @property
    def prompt_tokens(self) -> int:
        return sum(a.prompt_tokens for a in self.answers)

    @property
    def foreign(self) -> float:
        """The fraction of the counted tokens that others asked for."""
        counted = self.counted.generated
        return max(0.0, 1 - self.tokens / counted) if counted else 0.0

    def __add__(self, other: Phase) -> Phase:
        return Phase(
            [*self.answers, *other.answers],
            self.seconds + other.seconds,
            self.counted + other.counted,
        )

    def figures(self) -> dict[str, Any]:
        """Under the names that the module returns."""
        drafting = self.counted.drafting or metrics.Drafting()
        positions = drafting.per_position
        first = [a.first_token for a in self.answers if a.first_token is not None]
        return {
            "acceptance_length": _round(drafting.acceptance_length),
            "acceptance_rate": _round(drafting.acceptance_rate),
            "position_0": _round(positions[0] if positions else None),
            "per_position": [round(p, 4) for p in positions],
            "drafts": round(drafting.drafts),
            "drafted": round(drafting.drafted),
            "accepted": round(drafting.accepted),
            "tokens": self.tokens,
            "tokens_per_second": _round(self.tokens / self.seconds if self.seconds else None),
            "time_to_first_token": _round(statistics.median(first) if first else None),
            "requests": len(self.answers),
            "prompt_tokens": self.prompt_tokens,
            "cache_hits": None if self.counted.cache_hits is None else round(self.counted.cache_hits),
        }


@dataclasses.dataclass(frozen=True)
class Measurement:
    """source: where the figures are from, in words."""

    model: str
    version: str | None
    source: str
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
    source = sources.find(server, plan.log, deadline)
    phases = {name: _phase(name, server, plan, model, room, source, deadline) for name in plan.phases}
    return Measurement(model, version, source.words, phases)


def _choose(server: Server, plan: Plan, deadline: float) -> tuple[str, int | None]:
    models = server.models(deadline)
    for m in models:
        if plan.model in (None, m.name):
            return m.name, m.max_model_len
    raise NoAnswerError(
        f"The server does not serve a model named {plan.model!r}" if plan.model else "The server serves no model",
        f"/v1/models lists {', '.join(repr(m.name) for m in models) or 'nothing'}",
        "Leave model out to take what is served, or start the server with that --served-model-name",
    )


def _phase(
    name: str, server: Server, plan: Plan, model: str, room: int | None, source: sources.Source, deadline: float
) -> Phase:
    bodies = [
        {
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": plan.max_tokens,
            **({"chat_template_kwargs": plan.chat_template_kwargs} if plan.chat_template_kwargs else {}),
        }
        for text in _texts(name, server, plan, model, room, deadline)
    ]
    if name == "repeated":
        _ask([{**body, "max_tokens": 1} for body in bodies], name, server, plan, deadline)
    source.mark()
    begun = time.monotonic()
    answers = _ask(bodies, name, server, plan, deadline)
    seconds = time.monotonic() - begun
    return Phase(answers, seconds, source.since(answers, deadline))


def _texts(name: str, server: Server, plan: Plan, model: str, room: int | None, deadline: float) -> list[str]:
    """The prompts of a phase. A mark of its own before each keeps the prefix cache out of it; one for all brings it in."""
    before = ""
    if name == "long" or (name == "repeated" and plan.unique_prefix):
        before = _preamble(name, server, plan, model, room, deadline)
    nonce = os.urandom(4).hex()
    asked = []
    for n, prompt in enumerate(itertools.islice(itertools.cycle(plan.prompts), plan.requests)):
        mark = nonce if name == "repeated" else f"{nonce}-{n}"
        asked.append((f"[{mark}]\n" if plan.unique_prefix else "") + before + prompt)
    return asked


def _preamble(name: str, server: Server, plan: Plan, model: str, room: int | None, deadline: float) -> str:
    """A text of about long_tokens tokens, a quarter of that for repeated, if the model's length has room for it."""
    sample = prompts.filler(2000)
    per_token = len(sample) / (server.count_tokens(model, sample, deadline) or len(sample) / 4)
    size = plan.long_tokens if name == "long" else plan.long_tokens // 4
    if room:
        longest = max(map(len, plan.prompts)) / per_token
        size = min(size, int((room - plan.max_tokens - longest) * 0.8))
    return prompts.filler(int(size * per_token)) + "\n\n" if size > 0 else ""


def _ask(bodies: Sequence[dict[str, Any]], phase: str, server: Server, plan: Plan, deadline: float) -> list[Answer]:
    def one(body: dict[str, Any]) -> Answer:
        return server.generate(body, min(deadline, time.monotonic() + plan.request_timeout))

    answers: list[Answer] = []
    with concurrent.futures.ThreadPoolExecutor(plan.concurrency) as pool:
        sent = [pool.submit(one, body) for body in bodies]
        try:
            for s in sent:
                answers.append(s.result())
        except NoAnswerError as e:
            for s in sent:
                s.cancel()
            over = time.monotonic() >= deadline
            raise NoAnswerError(
                f"The probe was not over within {plan.timeout:.0f} s. {e.cause}" if over else e.cause,
                f"{e.evidence}; {len(answers)} of {len(bodies)} requests of phase {phase} were answered before",
                e.remedy + (". Or raise timeout, or send fewer requests" if over else ""),
            ) from None
    return answers


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live probe of a server, for who asks for it: a few real requests, with its own key, in its own network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import namespaces
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine import diagnosis, prompts, verdict
from ansible_collections.llmops.vllm.plugins.module_utils._engine import probe as measuring
from ansible_collections.llmops.vllm.plugins.module_utils._engine import requests as asking
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
    found = namespaces.at_network(subject.server.pid, lambda: _ask(subject, asked), asked.seconds + SLACK)
    return dict(found)


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


def _ask(subject: Subject, asked: Asked) -> dict[str, Any]:
    """What the probe brain says of a server that is reached from here."""
    key, told = subject.server.key, {}  # type: str, dict[str, Any]
    try:
        client = asking.Server(subject.url(True), key or None, validate_certs=False)
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
    # Whatever answers may send back what it was sent, and what it said is evidence.
    return {**told, "evidence": told["evidence"].replace(key, MASK)} if key and told.get("evidence") else told


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

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a run, when it has ended or so far. The JSON is this as it stands, and the page is made of it."""

from __future__ import annotations

import dataclasses
from typing import Any

BAD = {"failed": "bad", "unreachable": "bad", "went back": "warning", "kept": "warning"}
"""The verdicts of a host on which the run failed, and how bad that is for the host."""


@dataclasses.dataclass
class Stage:
    """A role's work on a host. started: seconds since the run began; steps: what a log told on the way, `name` and `seconds`.

    back: whether it came after a failure, to put things right. cause: `kind`, `text` and `hint`, where a log told why.
    """

    role: str
    started: float
    seconds: float = 0.0
    failed: bool = False
    back: bool = False
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    cause: dict[str, str] | None = None


@dataclasses.dataclass
class Measurement:
    """What acceptance_probe returned. Fractions are from 0 to 1; None is what could not be measured.

    at: seconds since the run began, None if it was not in this run.
    """

    at: float | None
    release: str | None
    back: bool
    verdict: str
    diagnosis: str
    acceptance_length: float | None
    acceptance_rate: float | None
    per_position: list[float]
    tokens_per_second: float | None
    drafts: int | None

    @property
    def position_0(self) -> float | None:
        return self.per_position[0] if self.per_position else None


@dataclasses.dataclass
class Finding:
    """One thing wrong with a drafter's config, as drafter_config returned it."""

    key: str
    found: Any
    wanted: Any
    severity: str
    why: str
    evidence: str


@dataclasses.dataclass
class Server:
    """A server as vllm_doctor returned it.

    acceptance_length: of all drafts since its start, None where there were none. probed: that of a probe, None without one.
    """

    model: str
    port: int
    keeper: str
    version: str
    drafter: str
    acceptance_length: float | None
    health: str
    probed: float | None = None


@dataclasses.dataclass
class Complaint:
    """What vllm_doctor says against a server, or against its host. who: the host, with the server's port where it has several."""

    who: str
    severity: str
    what: str
    evidence: str
    remedy: str


@dataclasses.dataclass
class Failure:
    """A task that failed, with all that it said."""

    task: str
    message: str


@dataclasses.dataclass
class Host:
    """One host's part in a run.

    verdict: `passed` (measured), `done` (without a measurement), `went back` (failed, and what served before is proven again),
    `kept` (failed before what serves was touched), `failed`, `unreachable`, `unfinished` (the run went no further with it), or
    `not reached`.
    batch: counted from 1, None if it was never its turn. release: what it serves as far as is known; tried: the release that was written
    in this run. before: what was measured earlier of the release that served until then. doing: the task that it is at, or was when the run was interrupted.
    servers: those that were examined, None where nobody looked.
    """

    name: str
    play: str = ""
    batch: int | None = None
    verdict: str = "not reached"
    release: str | None = None
    tried: str | None = None
    stages: list[Stage] = dataclasses.field(default_factory=list)
    before: Measurement | None = None
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    changes: list[str] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)
    doing: str | None = None
    servers: list[Server] | None = None
    complaints: list[Complaint] = dataclasses.field(default_factory=list)

    @property
    def touched(self) -> bool:
        return bool(self.stages or self.failures)

    @property
    def bad(self) -> bool:
        return self.verdict in BAD

    @property
    def grade(self) -> str:
        """`good`, `bad`, `warning` or `none`."""
        return {**BAD, "unfinished": "warning", "not reached": "none"}.get(self.verdict, "good")

    @property
    def seconds(self) -> float:
        """From the beginning of its first stage to the end of its last."""
        return self.stages[-1].started + self.stages[-1].seconds - self.stages[0].started if self.stages else 0.0


@dataclasses.dataclass
class Run:
    """One run of a playbook. started: ISO 8601, in UTC; check: whether it only said what it would do.

    verdict: `passed`, `failed`, or `unfinished` as long as it goes on, and for ever if it was interrupted.
    """

    playbook: str
    started: str
    seconds: float
    check: bool
    verdict: str
    hosts: list[Host]

    def data(self) -> dict[str, Any]:
        """As it is written to JSON."""
        return dataclasses.asdict(self)

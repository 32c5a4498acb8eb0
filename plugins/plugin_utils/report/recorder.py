# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the record of a run out of what happens in it. Takes from each result the fields that it knows, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.filter.doctor_table import name_of, told_of
from ansible_collections.llmops.vllm.plugins.filter.release_changes import release_changes
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import mask
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import (
    BAD,
    Complaint,
    Failure,
    Finding,
    Host,
    Measurement,
    Run,
    Server,
    Stage,
)

COMPLAINT = ("severity", "what", "evidence", "remedy")
HIDDEN = "What it said is hidden (no_log)."


@dataclasses.dataclass(frozen=True)
class Result:
    """The end of a task on a host. role: of this collection, without its name; module: likewise, or set_fact; both are empty for others.

    data: what the module returned, None where that is hidden. failed: whether that ended the block, or the play. lost: whether the host
    could not be reached.
    """

    host: str
    task: str
    role: str
    module: str
    data: Mapping[str, Any] | None
    at: float
    failed: bool = False
    lost: bool = False


@dataclasses.dataclass
class _Play:
    uuid: str
    name: str
    everyone: Sequence[str]
    batches: list[Collection[str]]
    ours: bool = False


@dataclasses.dataclass
class _Work:
    """What a host is at."""

    role: str
    started: float
    stage: Stage | None = None


class Recorder:
    """The events of one playbook, in the order in which they come. Times are seconds since the epoch."""

    def __init__(self, playbook: str, at: float, check: bool = False) -> None:
        self._playbook, self._began, self._check = playbook, at, check
        self._plays: list[_Play] = []
        self._hosts: dict[str, Host] = {}
        self._work: dict[str, _Work] = {}
        self._untouched: set[str] = set()
        self._failed: set[str] = set()  # by the last that was heard of them
        self._lost: set[str] = set()
        self._cut: set[str] = set()

    def play(self, uuid: str, name: str, everyone: Sequence[str], batch: Collection[str]) -> None:
        """A play begins, or the next batch of it. everyone: all hosts of the play, whenever their turn is."""
        if not self._plays or self._plays[-1].uuid != uuid:
            self._plays.append(_Play(uuid, name, everyone, []))
        self._plays[-1].batches.append(batch)

    def cut(self) -> None:
        """The play goes no further, not even with those of the batch that are well."""
        self._cut.update(self._plays[-1].batches[-1] if self._plays else ())

    def start(self, host: str, role: str, at: float, task: str = "") -> None:
        """A task begins on a host."""
        self._failed.discard(host)
        if role:
            self._begin(host, role, at)
        if host in self._hosts:
            self._hosts[host].doing = mask(task)

    def _begin(self, host: str, role: str, at: float) -> None:
        self._plays[-1].ours = True
        known = self._hosts.setdefault(host, Host(host))
        known.play, known.batch = self._plays[-1].name, len(self._plays[-1].batches)
        work = self._work.get(host)
        # What all roles depend on is the beginning of the one that it comes before.
        if role != "vllm" and (work is None or work.role != role or (work.stage and work.stage.failed)):
            self._work[host] = _Work(role, at)

    def skip(self, host: str) -> None:
        """A task was not for a host."""
        if host in self._hosts:
            self._hosts[host].doing = None

    def end(self, result: Result) -> None:
        """A task ended on a host, and was not skipped."""
        self.skip(result.host)
        if result.failed:
            self._failed.add(result.host)
        if result.lost:
            self._lost.add(result.host)
        host = self._hosts.get(result.host)
        if host is None:
            examined = result.module == "vllm_doctor"  # which needs no role
            if not (result.failed or examined):
                return
            self._plays[-1].ours = self._plays[-1].ours or examined
            host = self._hosts[result.host] = Host(result.host, self._plays[-1].name, len(self._plays[-1].batches))
        stage = self._stage(host, result)
        if result.data is not None and result.module in _TAKE:
            _TAKE[result.module](self, host, stage, result)
        if result.failed:
            said = (
                HIDDEN
                if result.data is None
                else mask(str(result.data.get("msg") or "It failed, and did not say why."))
            )
            host.failures.append(Failure(result.task, said))
            if stage:
                stage.failed = True

    def _stage(self, host: Host, result: Result) -> Stage | None:
        work = self._work.get(host.name)
        if work is None or work.role != result.role:
            return None
        if work.stage is None:
            work.stage = Stage(_short(work.role), round(work.started - self._began, 1), back=bool(host.failures))
            host.stages.append(work.stage)
        work.stage.seconds = round(result.at - work.started, 1)
        return work.stage

    def _measured(self, host: Host, _stage: Stage | None, result: Result) -> None:
        data = result.data or {}
        if "verdict" in data:
            at = round(result.at - self._began, 1)
            host.measurements.append(_measurement(data, at, host.release, bool(host.failures)))

    def _judged(self, host: Host, _stage: Stage | None, result: Result) -> None:
        host.findings = [
            Finding(**{field.name: _masked(found.get(field.name)) for field in dataclasses.fields(Finding)})
            for found in (result.data or {}).get("findings") or []
        ]

    def _examined(self, host: Host, _stage: Stage | None, result: Result) -> None:
        data = result.data or {}
        if "servers" not in data:
            return
        told = [*told_of(host.name, data)]
        host.complaints = [Complaint(who, *(mask(one[key]) for key in COMPLAINT)) for who, one in told]
        host.servers = [
            Server(name_of(one), one["port"], one["keeper"], one.get("version") or "", one.get("drafter") or "",
                   one.get("acceptance_length"), one["health"], (one.get("probe") or {}).get("acceptance_length"))
            for one in data["servers"]
        ]  # fmt: skip

    def _waited(self, host: Host, stage: Stage | None, result: Result) -> None:
        data = result.data or {}
        if stage:
            stage.steps += [{"name": step["name"], "seconds": step["seconds"]} for step in data.get("stages") or []]
            if data.get("cause"):
                stage.cause = {key: mask(str(data["cause"].get(key) or "")) for key in ("kind", "text", "hint")}

    def _written(self, host: Host, _stage: Stage | None, result: Result) -> None:
        data = result.data or {}
        before = data.get("current") or {}
        host.tried, host.release = data.get("id"), before.get("id")
        if before and before.get("id") != data.get("id"):
            host.changes = [mask(line) for line in release_changes(before, data.get("content") or {})]
            measured = data.get("current_measured") or {}
            host.before = _measurement(measured, None, host.release, False) if "verdict" in measured else None

    def _looked(self, host: Host, _stage: Stage | None, result: Result) -> None:
        data = result.data or {}
        host.release = (data.get("current") or {}).get("id")
        if host.failures and data.get("proven") and data.get("running") == host.release:
            self._untouched.add(host.name)

    def _handed_on(self, host: Host, _stage: Stage | None, result: Result) -> None:
        facts = (result.data or {}).get("ansible_facts") or {}
        served = facts.get("vllm_serve_result") or {}
        host.release = (served.get("content") or {}).get("id") or host.release
        # Of several hosts that run one server, one is measured for all.
        self._measured(host, _stage, dataclasses.replace(result, data=facts.get("vllm_verify_result") or {}))

    def so_far(self, at: float) -> Run | None:
        """The record while the run goes on. None as long as nothing of this collection was run."""
        for name, work in self._work.items():
            if work.stage and self._hosts[name].doing:
                work.stage.seconds = round(at - work.started, 1)
        going = set(self._plays[-1].batches[-1]) if self._plays else set()
        run = self._run(at, lambda host: self._verdict(host, self._failed, self._lost, going))
        return run and dataclasses.replace(run, verdict="unfinished")

    def finish(self, at: float, failed: Collection[str], unreachable: Collection[str]) -> Run | None:
        """The record, or None if nothing of this collection was run."""
        return self._run(at, lambda host: self._verdict(host, failed, unreachable, self._cut))

    def _run(self, at: float, verdict: Callable[[Host], str]) -> Run | None:
        plays = [play for play in self._plays if play.ours]
        if not plays:
            return None
        plays_of: dict[str, str] = {}
        for play in plays:
            for name in play.everyone:
                plays_of.setdefault(name, play.name)
        hosts = [self._hosts.get(name) or Host(name, play) for name, play in plays_of.items()]
        for host in hosts:
            host.verdict = verdict(host)
        return Run(
            playbook=self._playbook,
            started=datetime.fromtimestamp(self._began, timezone.utc).isoformat(timespec="seconds"),
            seconds=round(at - self._began, 1),
            check=self._check,
            verdict="failed" if any(host.verdict in BAD for host in hosts) else "passed",
            hosts=hosts,
        )

    def _verdict(
        self, host: Host, failed: Collection[str], unreachable: Collection[str], unfinished: Collection[str]
    ) -> str:
        last = host.measurements[-1] if host.measurements else None
        passed = last is not None and last.verdict == "pass"
        if host.name in unreachable:
            return "unreachable"
        if host.name in failed:
            if last and last.back and passed:
                return "went back"
            return "kept" if host.name in self._untouched else "failed"
        if host.batch is None:
            return "not reached"
        if host.name in unfinished and not passed:
            return "unfinished"
        return "passed" if passed else "done"


_TAKE: dict[str, Callable[[Recorder, Host, Stage | None, Result], None]] = {
    "acceptance_probe": Recorder._measured,
    "drafter_config": Recorder._judged,
    "log_wait": Recorder._waited,
    "vllm_doctor": Recorder._examined,
    "vllm_release": Recorder._written,
    "vllm_instance_info": Recorder._looked,
    "set_fact": Recorder._handed_on,
}


def _measurement(data: Mapping[str, Any], at: float | None, release: str | None, back: bool) -> Measurement:
    return Measurement(
        at=at,
        release=release,
        back=back,
        verdict=data["verdict"],
        diagnosis=mask(data.get("diagnosis") or ""),
        acceptance_length=data.get("acceptance_length"),
        acceptance_rate=data.get("acceptance_rate"),
        per_position=list(data.get("per_position") or []),
        tokens_per_second=data.get("tokens_per_second"),
        drafts=data.get("drafts"),
    )


def _short(role: str) -> str:
    return role[len("vllm_") :] if role.startswith("vllm_") else role


def _masked(value: Any) -> Any:
    return mask(value) if isinstance(value, str) else value

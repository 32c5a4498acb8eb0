# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a server as it runs: its process, its log, its answers, its counters."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.features import ENOUGH, WEAK
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine import diagnosis
from ansible_collections.llmops.vllm.plugins.module_utils._engine.probe import Phase

LOADING = 1800  # seconds after which a server that isn't ready is no longer just loading


def process(subject: Subject) -> Iterator[Finding]:
    server = subject.server
    started = time.time() - server.uptime
    for what, directory in (("drafter", subject.drafter), ("target", subject.target)):
        path = os.path.join(directory, "config.json")
        changed = os.stat(path).st_mtime if directory else 0.0
        if changed > started:
            yield Finding(
                "process", ERROR,
                f"The {what}'s config.json was changed {_span(changed - started)} after the server was started, so what it runs with is "
                "another one, and the change has had no effect.",
                f"{path} is of {_time(changed)}, pid {server.pid} of {_time(started)}",
                "Restart the server.",
            )  # fmt: skip
    if server.listens and server.port not in server.listens:
        yield Finding(
            "process", WARNING, f"It was told to listen on port {server.port}, and does not.", f"pid {server.pid} listens on "
            f"{', '.join(map(str, server.listens))}", "Look what holds the port, and at the last lines of its log.",
        )  # fmt: skip
    alone = server.flags.get("data-parallel-size-local") == 0  # its engines are on other hosts
    if subject.answers and not server.workers and not alone:
        yield Finding(
            "process", ERROR, "The API server answers, and its engine is gone.", f"pid {server.pid} has no other processes",
            "Restart it; the end of its log tells what the engine died of.",
        )  # fmt: skip


def log(subject: Subject) -> Iterator[Finding]:
    judge, server = subject.log, subject.server
    if subject.restarts:
        yield Finding(
            "log", WARNING, f"It was started again {subject.restarts} times by itself.", subject.unit.get("Id", server.log),
            "Find what it died of in the log before the last launch.",
        )  # fmt: skip
    if judge is None:
        if server.log:
            yield Finding(
                "log", NOTE, "Nothing can be read of its log.", f"its output goes to {server.log}", "Have it written to a file, or let a unit keep it.",
            )  # fmt: skip
        return
    cause = judge.cause() if judge.failed else None
    if judge.failed:
        told = cause.text.splitlines()[0] if cause else judge.failed.text
        yield Finding(
            "log", ERROR, f"Its last launch has failed, though a process is still there: {told}", f"{server.log}, line "
            f"{cause.number if cause else judge.failed.number}", (cause.hint if cause else "") or "Restart it once that is mended.",
        )  # fmt: skip
    elif not judge.ready and not subject.answers and server.uptime > LOADING:
        yield Finding(
            "log", ERROR, f"After {_span(server.uptime)} it is not ready: it is still {judge.progress.stage or 'starting'}.",
            server.log, judge.progress.hint or "Look at the last lines of its log.",
        )  # fmt: skip


def silence(subject: Subject) -> Iterator[Finding]:
    ready = subject.log.ready if subject.log else None
    if subject.silence and (ready or subject.server.uptime > LOADING) and not (subject.log and subject.log.failed):
        yield Finding(
            "process", ERROR, "The server gives no answer.", subject.silence, "Look at the end of its log, and restart it if it hangs.",
        )  # fmt: skip


def probe(subject: Subject) -> Iterator[Finding]:
    """What a probe found, where somebody asked for one."""
    told, server = subject.probed, subject.server
    if told is None:
        return
    cause, evidence, remedy = (str(told.get(name) or "") for name in ("cause", "evidence", "remedy"))
    if told["verdict"] in ("not probed", "keyless", "insufficient"):
        what = "It wants a key, and none can be read" if told["verdict"] == "keyless" else cause
        yield Finding(
            "probe", NOTE, f"The probe says nothing: {_lowered(what)}.", evidence or f"pid {server.pid}", f"{remedy or 'Probe it when that is over'}.",
        )  # fmt: skip
    elif told["verdict"] == "no_speculation" and not server.speculative:
        return
    elif told["verdict"] != "pass":
        yield Finding("probe", ERROR, f"Asked for tokens, it fails: {_lowered(cause)}.", evidence, f"{remedy}.")
    elif told["ill"] or (told["acceptance_length"] or WEAK) < WEAK:
        yield Finding("probe", ERROR if told["ill"] else WARNING, f"{cause}.", evidence, f"{remedy}.")


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def counters(subject: Subject) -> Iterator[Finding]:
    drafting = subject.counters.drafting
    if subject.server.speculative and subject.counters.heard and drafting is None:
        yield Finding(
            "counters", ERROR, "It has a drafter, and counts no drafts: speculative decoding is off.", "/metrics", "Look in its log why.",
        )  # fmt: skip
    if drafting is None or drafting.drafts < ENOUGH or drafting.acceptance_length is None:
        return
    pattern = diagnosis.shape(Phase([], 0.0, subject.counters), subject.version or None)
    evidence = (
        f"/metrics since its start: acceptance length {drafting.acceptance_length:.2f}, {drafting.accepted:.0f} of {drafting.drafted:.0f} drafted "
        f"tokens accepted, by position {' '.join(f'{p:.3f}' for p in drafting.per_position)}"
    )
    if pattern.ill:
        yield Finding("counters", ERROR, f"{pattern.cause}.", evidence, f"{pattern.remedy}.")
    elif drafting.acceptance_length < WEAK:
        yield Finding(
            "counters",
            WARNING,
            f"{pattern.cause}.",
            evidence,
            f"{pattern.remedy or 'Measure it with acceptance_probe'}.",
        )


def _span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.0f} min"
        if seconds >= 60
        else f"{seconds:.0f} s"
    )


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))

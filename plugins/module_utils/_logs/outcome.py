# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a wait, as the task returns it."""

from __future__ import annotations

import base64
import dataclasses
import json
import signal
import zlib
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import refusals
from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns, report
from ansible_collections.llmops.vllm.plugins.module_utils._logs.causes import Trouble
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import mask
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Wait

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
GONE = "A process that the server can't do without has disappeared without a word, as it does when it is killed."


def outcome(verdict: str, wait: Wait, reconnects: int = 0) -> dict[str, Any]:
    judge, elapsed = wait.judge, wait.elapsed
    progress = judge.progress
    cause = judge.cause() if verdict in ("failed", "exited") and not wait.missing else None
    decided = {"ready": judge.ready, "failed": judge.failed, "stopped": judge.stopping}.get(verdict)
    base = wait.line_base() if cause or decided else 0
    cause = cause and dataclasses.replace(cause, number=cause.number + base)
    if decided and decided.number:
        decided = dataclasses.replace(decided, number=decided.number + base)
    end = report.Ending(
        verdict=verdict,
        source=str(wait.source),
        elapsed=elapsed,
        limit=wait.limits.timeout,
        subject="the server" if judge.profile.vllm else "the job",
        pid=wait.life.pid,
        ready=judge.ready,
        decided=decided,
        cause=cause,
        dead=wait.dead,
        exit=wait.exit,
        missing=wait.missing,
        stall=wait.limits.stall,
        stage=progress.stage,
        hint=_hint(verdict, wait),
        recent=judge.last_lines(),
        reconnects=reconnects,
    )
    told: dict[str, Any] = {
        "changed": False,
        "verdict": verdict,
        "was_ready": judge.ready is not None,
        "stages": progress.durations(elapsed),
        "facts": progress.facts,
        "elapsed": round(elapsed, 1),
        "lines": judge.lines,
        "bytes": wait.bytes,
        "reconnects": reconnects,
        "msg": report.message(end),
    }
    if decided:
        told["matched"] = dataclasses.asdict(decided)
    if cause:
        told["cause"] = _told(cause)
    return {**masked(told), "mark": wait.mark()}


def _told(cause: Trouble) -> dict[str, Any]:
    return {name: getattr(cause, name) for name in ("kind", "number", "process", "text", "hint", "context")}


def _hint(verdict: str, wait: Wait) -> str:
    """What to do where the log tells no cause: by how the process ended, or by the stage that never ends."""
    full = refusals.no_room(str(wait.source)) if verdict not in ("ready", "stopped", "pending") else ""
    if full and str(wait.source).startswith("/"):
        return full
    if wait.missing:
        return f"{GONE} {patterns.KILLED}"
    if verdict in ("failed", "exited") and wait.exit:
        if wait.exit.signal == signal.SIGKILL:
            return patterns.KILLED
        if wait.exit.signal in CRASHES:
            return patterns.CRASHED
    return wait.judge.progress.hint if verdict in ("stalled", "timeout") else ""


def masked(value: Any) -> Any:
    """The value with every text in it masked."""
    if isinstance(value, dict):
        return {k: masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v) for v in value]
    return mask(value) if isinstance(value, str) else value


def pack(state: dict[str, Any]) -> str:
    """A wait's state as one word, to be handed to the next slice. It holds lines as they were, so it must not be shown."""
    return base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()


def unpack(word: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(word)))
    return state

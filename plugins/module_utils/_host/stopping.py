# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending a process and everything of its session, within a bound."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from ansible_collections.llmops.vllm.plugins.module_utils._host.processes import PidFile, session_members

POLL = 0.05  # seconds
KILL_BOUND = 10.0  # seconds after which a killed process is called unkillable


def stop(record: PidFile, timeout: float) -> tuple[list[str], list[int]]:
    """End the recorded process and its session.

    TERM to the leader, TERM again to all at half the time (vLLM ignores the first while it starts), KILL to all at its end.
    Returns what was done, in words, and the pids that survived even KILL (state D: the kernel holds them).
    """
    actions = []
    steps = (
        ("sent TERM to", [record.pid], signal.SIGTERM, timeout / 2),
        ("sent TERM again to", None, signal.SIGTERM, timeout / 2),
        ("sent KILL to", None, signal.SIGKILL, KILL_BOUND),
    )
    for words, pids, number, patience in steps:
        members = session_members(record)
        if not members:
            break
        chosen = [pid for pid in pids if pid in members] if pids else members
        if chosen:
            _signal(chosen, number)
            actions.append(f"{words} {', '.join(map(str, chosen))}")
            _wait_until_empty(record, patience)
    return actions, session_members(record)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_until_empty(record: PidFile, patience: float) -> None:
    deadline = time.monotonic() + patience
    while session_members(record) and time.monotonic() < deadline:
        time.sleep(POLL)

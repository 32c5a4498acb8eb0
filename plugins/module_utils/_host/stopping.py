# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending a group of processes, within a bound."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

POLL = 0.05  # seconds
KILL_BOUND = 10.0  # seconds after which a killed process is called unkillable


def stop(
    members: Callable[[], list[int]],
    ask: Callable[[list[int]], str],
    timeout: float,
    going: Callable[[], bool] = lambda: False,
) -> tuple[list[str], list[int]]:
    """End all members of a group, which is looked up anew at each step.

    Asks them first, in the way of the group. TERM to all at half the time, since vLLM ignores the first while it starts; KILL to all at
    its end. going: whether a supervisor is about to start one again, though none lives just now. Returns what was done, in words, and the
    pids that survived even KILL (state D: the kernel holds them).
    """
    actions = []
    steps: tuple[tuple[Callable[[list[int]], str], float], ...] = (
        (ask, timeout / 2),
        (lambda pids: send(signal.SIGTERM, pids, "sent TERM again to"), timeout / 2),
        (lambda pids: send(signal.SIGKILL, pids, "sent KILL to"), KILL_BOUND),
    )
    for step, patience in steps:
        pids = members()
        if not pids and not (step is ask and going()):
            break
        actions.append(step(pids))
        deadline = time.monotonic() + patience
        while (members() or (step is ask and going())) and time.monotonic() < deadline:
            time.sleep(POLL)
    return actions, members()


def send(number: signal.Signals, pids: Iterable[int], words: str) -> str:
    """Send a signal; gives back what was done. Raises PermissionError, with the process in words, for one that isn't ours to end."""
    names = [f"{pid} ({processes.name(pid)})" for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            try:
                os.kill(pid, number)
            except PermissionError as e:
                raise PermissionError(e.errno, f"{processes.describe(pid)} can't be ended") from None
    return f"{words} {', '.join(names)}"

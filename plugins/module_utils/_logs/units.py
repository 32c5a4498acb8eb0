# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a systemd unit runs, and how it ended."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes, programs
from ansible_collections.llmops.vllm.plugins.module_utils._host.processes import Exit

LOOK = 1.0
"""Between looks, each of which costs a process."""


class NothingToWatchError(Exception):
    """What was named can't be watched."""


class Unit:
    """A systemd unit, as long as it runs what it ran when the wait began."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.pid = 0
        self.invocation = ""
        self._shown: dict[str, str] = {}
        self._looked = 0.0

    def dump(self) -> dict[str, Any]:
        return {"invocation": self.invocation}

    def load(self, known: dict[str, Any]) -> None:
        self.invocation = known["invocation"]

    def __str__(self) -> str:
        return f"the unit {self.unit}"

    def dead(self) -> bool:
        if time.monotonic() - self._looked >= LOOK or (self.pid and processes.start_ticks(self.pid) is None):
            self._shown = show(self.unit)
            self._looked = time.monotonic()
        shown = self._shown
        self.pid = int(shown.get("MainPID") or 0)
        self.invocation = self.invocation or shown.get("InvocationID", "")
        return (
            shown.get("ActiveState") in ("inactive", "failed")
            or shown.get("SubState") == "auto-restart"
            or shown.get("InvocationID", self.invocation) != self.invocation
        )

    def ended(self) -> Exit | None:
        shown = self._shown
        code, status = shown.get("ExecMainCode"), shown.get("ExecMainStatus", "")
        if code not in ("1", "2", "3") or not status.isdigit() or shown.get("InvocationID") != self.invocation:
            return None
        number = int(status)
        return Exit(number, None, "") if code == "1" else Exit(None, number, "")

    def stopped(self) -> bool:
        """Whether systemd is content with its end, by a stop or a success; it may have forgotten how it was."""
        return self._shown.get("ActiveState") == "inactive" and self._shown.get("Result") == "success"

    def notes(self) -> list[str]:
        return []

    def missing(self, now: float) -> str:
        return ""


def show(unit: str) -> dict[str, str]:
    """What systemd says of a unit."""
    names = (
        "LoadState,ActiveState,SubState,MainPID,InvocationID,Result,ExecMainCode,ExecMainStatus"
        ",ExecMainStartTimestampMonotonic,InactiveExitTimestampMonotonic"
    )
    try:
        done = programs.run(
            ["systemctl", "show", "--property", names, "--", unit],
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise NothingToWatchError(f"Can't ask systemd about {unit}: {e}.") from e
    if done.returncode:
        raise NothingToWatchError(f"Can't ask systemd about {unit}: {done.stderr.decode('utf-8', 'replace').strip()}")
    shown = dict(line.split("=", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if "=" in line)
    if shown.get("LoadState") == "not-found":
        raise NothingToWatchError(f"There is no unit {unit} on this host.")
    return shown


def started(unit: str) -> float:
    """When a unit was started, in seconds since the epoch; 0 if systemd has forgotten it."""
    shown = show(unit)
    # What waits to be started again has left its rest when its process ended, and that is what is asked about.
    told = ["ExecMainStart"] if shown.get("SubState") == "auto-restart" else ["ExecMainStart", "InactiveExit"]
    times = [int(shown.get(f"{what}TimestampMonotonic") or 0) for what in told]
    return time.time() - time.monotonic() + max(times) / 1e6 - 0.001 if any(times) else 0.0

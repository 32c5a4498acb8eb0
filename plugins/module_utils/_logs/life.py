# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a process lives, how it ended, and whether a part of it is missing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.plugins.module_utils._host.processes import Exit

EXIT_RECORD_WITHIN = 2.0
"""The keeper writes how its process ended a moment after the end."""
MISSED = 10.0
"""An engine may be gone so long before its server says so."""

PARTS = "VLLM::"
"""So the names of the processes begin that a server can't do without."""
LOOK = 1.0
"""Between looks for them."""


class Process:
    """A process by its identity: another one that has its number later is not taken for it."""

    def __init__(self, pid: int = 0, pidfile: str = "") -> None:
        self.pid = pid
        self.pidfile = pidfile
        self.ticks: int | None = None
        self.boot = ""
        self._left: Exit | None = None
        self._next = 0.0
        self._parts: dict[int, list[Any]] = {}  # pid: start ticks, name, when it was missed first

    def dump(self) -> dict[str, Any]:
        return {"pid": self.pid, "ticks": self.ticks, "boot": self.boot, "parts": list(self._parts.items())}

    def load(self, known: dict[str, Any]) -> None:
        self.pid, self.ticks, self.boot = known["pid"], known["ticks"], known["boot"]
        self._parts = {int(pid): part for pid, part in known["parts"]}

    def __str__(self) -> str:
        return f"the server process (pid {self.pid})" if self.pid else "the server process"

    def dead(self) -> bool:
        """Whether it is known to be gone. Nobody to watch, or nobody yet: False."""
        if self.pidfile:
            self._read_pidfile()
        if not self.pid:
            return False
        ticks = processes.start_ticks(self.pid)
        if self.ticks is None and ticks is not None:
            self.ticks, self.boot = ticks, processes.boot_id()
        if ticks is None:
            self._left = self._left or _left_by_zombie(self.pid)
        return ticks is None or ticks != self.ticks or self.boot != processes.boot_id()

    def ended(self) -> Exit | None:
        """How it ended, if anybody saw it."""
        record = processes.read_pidfile(self.pidfile) if self.pidfile else None
        end = time.monotonic() + EXIT_RECORD_WITHIN
        while record and not self._left:
            self._left = processes.read_exit(self.pidfile, record)
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        return self._left

    def stopped(self) -> bool:
        """Whether it ended by the signals that people and supervisors stop a server with."""
        end = self.ended()
        return end is not None and end.signal in (signal.SIGTERM, signal.SIGINT)

    def missing(self, now: float) -> str:
        """A part of the living server that has been gone for long without a word: "VLLM::EngineCore (pid 7)"."""
        if now < self._next:
            return ""
        self._next = now + LOOK
        living = family(self.pid) if self.pid else {}
        for pid, (ticks, name) in living.items():
            if name.startswith(PARTS):
                self._parts.setdefault(pid, [ticks, name, None])
        for pid, part in self._parts.items():
            if pid in living and living[pid][0] == part[0]:
                part[2] = None
            elif part[2] is None:
                part[2] = now
            elif now - part[2] >= MISSED:
                return f"{part[1]} (pid {pid})"
        return ""

    def notes(self) -> list[str]:
        if self.pidfile and not self.pid:
            return [f"There was no pid file {self.pidfile}, so nobody looked whether the process lives."]
        return []

    def _read_pidfile(self) -> None:
        record = processes.read_pidfile(self.pidfile)
        if record:
            self.pid, self.ticks, self.boot = record.pid, record.start_ticks, record.boot_id
        elif not self.pid:
            try:
                with open(self.pidfile, encoding="ascii") as f:
                    self.pid = int(f.read(32))
            except (OSError, ValueError):
                return


def _left_by_zombie(pid: int) -> Exit | None:
    """How a process ended whose parent has not asked yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            stat = f.read()
        fields = stat[stat.rindex(b")") + 2 :].split()
        status = int(fields[49])
    except (OSError, ValueError, IndexError):
        return None
    if fields[0] != b"Z":
        return None
    return Exit(None, status & 0x7F, "") if status & 0x7F else Exit(status >> 8, None, "")


def family(pid: int) -> dict[int, tuple[int, str]]:
    """The living descendants of a process, with their start ticks and names."""
    found: dict[int, tuple[int, str]] = {}
    queue = [pid]
    while queue:
        for child in _children(queue.pop()):
            ticks = processes.start_ticks(child)
            if ticks is not None and child not in found:
                found[child] = (ticks, _name(child))
                queue.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                found += [int(child) for child in f.read().split()]
    except OSError:  # gone meanwhile, or a kernel that does not tell
        pass
    return found


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""

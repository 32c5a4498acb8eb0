# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the server's process lives, and how it ended."""

from __future__ import annotations

import os
import time
from typing import Any, Optional

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

EXIT_RECORD_WITHIN = 2.0
"""The keeper writes how its process ended a moment after the end."""


class Life:
    """A process by its identity, so that another one with the same number is not taken for it."""

    def __init__(self, pid: Optional[int] = None, pidfile: str = "", state: Optional[dict[str, Any]] = None) -> None:
        self.pidfile = pidfile
        self.pid = pid or 0
        self.ticks: Optional[int] = None
        self.boot = ""
        if state:
            self.pid, self.ticks, self.boot = state["pid"], state["ticks"], state["boot"]

    def state(self) -> dict[str, Any]:
        return {"pid": self.pid, "ticks": self.ticks, "boot": self.boot}

    def dead(self) -> bool:
        """Whether the process is known to be gone. Nobody to watch, or not yet: False."""
        if self.pidfile:
            record = processes.read_pidfile(self.pidfile)
            if record:
                self.pid, self.ticks, self.boot = record.pid, record.start_ticks, record.boot_id
        if not self.pid:
            return False
        ticks = processes.start_ticks(self.pid)
        if self.ticks is None:
            self.ticks, self.boot = ticks, processes.boot_id()
        return ticks is None or ticks != self.ticks or (self.boot != processes.boot_id())

    def how(self) -> str:
        """How it ended: "exit code 1", "killed by signal 9 (SIGKILL)"; empty if nobody saw it."""
        record = processes.read_pidfile(self.pidfile) if self.pidfile else None
        end = time.monotonic() + EXIT_RECORD_WITHIN
        while record:
            found = processes.read_exit(self.pidfile, record)
            if found:
                return str(found)
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        return ""

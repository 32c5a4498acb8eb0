# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server as a systemd unit. The unit's file never names a release, so what runs is proven by the process itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, processes, programs, rehearsal, stopping
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import Supervisor, SupervisorError

LAUNCH = "LLMOPS_VLLM_LAUNCH"
"""The variable by which a launch script tells the server, and all that it starts, which script that was."""

PROPERTIES = (
    "LoadState",
    "LoadError",
    "ActiveState",
    "SubState",
    "Result",
    "UnitFileState",
    "NeedDaemonReload",
    "MainPID",
    "NRestarts",
    "InvocationID",
    "ControlGroup",
    "ExecMainStartTimestampMonotonic",
    "ExecMainCode",
    "ExecMainStatus",
)
EXITED = "1"  # CLD_EXITED, see waitid(2); what else is in ExecMainCode is a death by signal
FILES = "/etc/systemd/system"
PATIENCE = 20.0  # seconds in which systemd answers, and a launch script becomes the server


class Unit(Supervisor):
    """A unit whose main process is started by a launch script, directly or through a link.

    text: what its file has to hold; None for a file that is somebody else's to write.
    """

    def __init__(self, name: str, argv: list[str], user: str | None = None, text: str | None = None) -> None:
        self.name = name
        self.argv = argv
        self.user = user
        self.text = text
        self.path = os.path.join(FILES, name)
        self.wanted = argv[-1:]
        self.actions: list[str] = []
        self.shown = show(name)

    @property
    def pid(self) -> int:
        return int(self.shown.get("MainPID") or 0)

    def running(self) -> list[str]:
        if not self.pid:
            return []
        # A process may write over its environment; then those beside it know.
        told = (processes.variable(pid, LAUNCH) for pid in [self.pid, *self.members()])
        launch = next(filter(None, told), None)
        return [launch] if launch else []

    def active(self) -> bool:
        return self.shown.get("ActiveState") not in ("inactive", "failed")

    def going(self) -> bool:
        self.shown = show(self.name)
        return self.active()

    def differing(self) -> tuple[str, str] | None:
        """What the file holds and has to hold, if that is not the same."""
        if self.text is None:
            return None
        if os.path.islink(self.path):
            raise SupervisorError(
                f"{self.path} is a link to {os.readlink(self.path)}, so {self.name} is masked or somebody else's. "
                f"Unmask it (systemctl unmask {self.name}), or choose another vllm_instance."
            )
        try:
            with open(self.path, encoding="utf-8", errors="replace", opener=files.ordinary) as f:
                found = f.read()
        except FileNotFoundError:
            found = ""
        return None if found == self.text else (found, self.text)

    def settled(self) -> bool:
        return (
            not self.differing()
            and self.shown.get("NeedDaemonReload") != "yes"
            and self.shown.get("UnitFileState") == "enabled"
        )

    def settle(self) -> None:
        if self.text is not None and self.differing():
            files.write(self.path, self.text.encode(), mode=0o644)
            self.actions.append(f"wrote {self.path}")
            self.shown["NeedDaemonReload"] = "yes"  # systemd goes by times, and two writes may have the same one
        if self.shown.get("NeedDaemonReload") == "yes" or self.shown.get("LoadState") != "loaded":
            self._order("daemon-reload")
            self.shown = show(self.name)
        if self.shown.get("LoadState") != "loaded":
            why = self.shown.get("LoadError", "").partition(" ")[2].strip('"') or self.shown.get("LoadState")
            raise SupervisorError(f"systemd can't load {self.name}: {why}")
        if self.shown.get("UnitFileState") != "enabled":
            self._order("enable", self.name)

    def hindrance(self) -> str:
        return rehearsal.hindrance(self.argv, user=self.user)

    def members(self) -> list[int]:
        group = self.shown.get("ControlGroup") or f"/system.slice/{self.name}"
        return [pid for pid in processes.living() if processes.control_group(pid).startswith((group, group + "/"))]

    def ask_to_stop(self, pids: list[int]) -> str:
        """By systemd, which would start it again if it were ended in any other way."""
        self._order("stop", "--no-block", self.name)
        done = self.actions.pop()
        own = self.members()
        strays = [pid for pid in pids if pid not in own]
        return "; ".join([done, stopping.send(signal.SIGTERM, strays, "sent TERM to")] if strays else [done])

    def start(self) -> None:
        self._order("reset-failed", self.name)
        self.actions.pop()
        self._order("restart", self.name)
        # systemd is content once the script runs; a moment later the script becomes the server, or fails.
        deadline = time.monotonic() + PATIENCE
        self.shown = show(self.name)
        invocation = self.shown.get("InvocationID")
        while self.active() and self.shown.get("InvocationID") == invocation and time.monotonic() < deadline:
            running = self.running()
            if running == self.wanted:
                return
            if running:
                raise SupervisorError(f"{self.name} started {running[0]} and not {self.wanted[0]}.")
            time.sleep(stopping.POLL)
            self.shown = show(self.name)

    def result(self) -> dict[str, Any]:
        self.shown = show(self.name)
        result: dict[str, Any] = {
            "pid": self.pid or None,
            "unit": self.name,
            "state": f"{self.shown.get('ActiveState')} ({self.shown.get('SubState')})",
            "restarts": int(self.shown.get("NRestarts") or 0),
        }
        status = self.shown.get("ExecMainStatus", "")
        if self.pid or self.shown.get("ExecMainCode") in (None, "0") or not status.isdigit():
            return result
        by_itself = self.shown["ExecMainCode"] == EXITED
        exit_ = {"code": int(status) if by_itself else None, "signal": None if by_itself else int(status)}
        return {**result, "exit": exit_}

    def _order(self, *words: str) -> None:
        done = _systemctl(*words)
        if done.returncode:
            raise SupervisorError(f"systemctl {' '.join(words)} failed: {done.stderr.strip() or done.stdout.strip()}")
        self.actions.append(f"systemctl {' '.join(words)}")


def show(unit: str) -> dict[str, str]:
    """What systemd says of a unit."""
    done = _systemctl("show", "--property", ",".join(PROPERTIES), "--", unit)
    if done.returncode:
        raise SupervisorError(f"systemd was asked about {unit} and said: {done.stderr.strip()}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def _systemctl(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return programs.run(
            ["systemctl", *words],
            text=True,
            errors="replace",
            timeout=None if words[0] == "restart" else PATIENCE,
        )
    except FileNotFoundError as e:
        raise SupervisorError("There is no systemctl on this host: use a pidfile in place of a unit.") from e
    except subprocess.TimeoutExpired as e:
        raise SupervisorError(f"systemctl {' '.join(words)} gave no answer within {PATIENCE:g} s.") from e

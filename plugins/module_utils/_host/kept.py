# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server without systemd: a keeper starts it and outlives the connection with it, and a pid file knows it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from typing import IO, Any, cast

from ansible_collections.llmops.vllm.plugins.module_utils._host import (
    keeper,
    processes,
    programs,
    refusals,
    rehearsal,
    stopping,
)
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import Supervisor, SupervisorError

KEEPER = "import json, sys; exec(json.loads(sys.stdin.readline()))  # keeps a server and its exit code"
"""It gets its code by standard input: what lay in a file others could change before it is run as root."""


class Kept(Supervisor):
    """The process behind one pid file."""

    def __init__(self, pidfile: str, argv: list[str], log: str = "", chdir: str = "/", user: str | None = None) -> None:
        self.pidfile = pidfile
        self.wanted = argv
        self.log = log
        self.chdir = chdir
        self.user = user
        self.actions: list[str] = []
        self.record = processes.read_pidfile(pidfile)

    def running(self) -> list[str]:
        return self.record.argv if self.record and self.active() else []

    def active(self) -> bool:
        return self.record is not None and processes.alive(self.record)

    def going(self) -> bool:
        return self.active()

    def settled(self) -> bool:
        return True

    def settle(self) -> None:
        """A keeper has nothing of its own that could be out of date."""

    def hindrance(self) -> str:
        if "{n}" not in self.log and os.path.lexists(self.log):
            return f"The log {self.log} is there already, and each launch has its own: put {{n}} into its name, or move it away."
        # What can't be logged, or recorded, would take the place of a server that runs.
        nowhere = refusals.no_place(os.path.dirname(self.log)) or refusals.no_place(os.path.dirname(self.pidfile))
        return nowhere or rehearsal.hindrance(self.wanted, self.chdir, self.user)

    def members(self) -> list[int]:
        return processes.session_members(self.record) if self.record else []

    def ask_to_stop(self, pids: list[int]) -> str:
        """A living leader ends its own workers; all others are asked one by one."""
        session = self.members()
        if self.record and self.active():
            pids = [pid for pid in pids if pid == self.record.pid or pid not in session]
        return stopping.send(signal.SIGTERM, pids, "sent TERM to")

    def start(self) -> None:
        """Let the keeper start the command, and take its word for the new record."""
        os.makedirs(os.path.dirname(self.pidfile), exist_ok=True)
        request = {"argv": self.wanted, "log": fresh_log(self.log), "chdir": self.chdir, "user": self.user}
        with programs.Program(
            [sys.executable, "-c", KEEPER, self.pidfile],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        ) as process:
            stdin, stdout, stderr = (cast(IO[bytes], end) for end in (process.stdin, process.stdout, process.stderr))
            stdin.write(f"{json.dumps(inspect.getsource(keeper))}\n{json.dumps(request)}".encode())
            stdin.close()
            answer = stdout.readline()
            # The keeper lives on, so leaving the block must not wait for it.
            process.returncode = 0 if answer else process.wait()
            result = json.loads(answer) if answer else {"error": stderr.read().decode(errors="replace").strip()}
        if "error" in result:
            raise SupervisorError(f"{self.wanted[0]} was not started: {result['error']}")
        self.record = processes.PidFile(**result)
        self.actions.append(f"started {self.record.pid}")

    @property
    def started(self) -> processes.PidFile:
        """The record of what runs or ran."""
        if self.record is None:
            raise SupervisorError(f"nothing was ever started by {self.pidfile}")
        return self.record

    def result(self) -> dict[str, Any]:
        if not self.record:
            return {"pid": None}
        result: dict[str, Any] = {"pid": None, "log": self.record.log, "mark": self.record.mark}
        if self.active():
            result.update(pid=self.record.pid, started_at=self.record.started_at)
            return result
        # The keeper needs a moment to write down how its process ended.
        deadline = time.monotonic() + 1
        end = processes.read_exit(self.pidfile, self.record)
        while end is None and self.actions and time.monotonic() < deadline:
            time.sleep(stopping.POLL)
            end = processes.read_exit(self.pidfile, self.record)
        return {**result, "exit": dataclasses.asdict(end)} if end else result


def fresh_log(path: str) -> str:
    """The path of the log with the number after the highest that is there."""
    directory, name = os.path.split(path)
    os.makedirs(directory, exist_ok=True)
    before, placeholder, after = name.partition("{n}")
    if not placeholder:
        return path
    numbers = [
        int(n[len(before) : len(n) - len(after)])
        for n in os.listdir(directory)
        if n.startswith(before) and n.endswith(after) and n[len(before) : len(n) - len(after)].isdigit()
    ]
    return os.path.join(directory, f"{before}{max(numbers, default=0) + 1}{after}")

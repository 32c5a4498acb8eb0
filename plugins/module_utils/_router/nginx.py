# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An nginx of our own: its configuration, laid down only if nginx takes it, and its workers of today and of yesterday."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, processes, programs
from ansible_collections.llmops.vllm.plugins.module_utils._router.replicas import Replica, Replicas, RouterError

MASTER, WORKER, LEAVING = "nginx: master process", "nginx: worker process", "is shutting down"
PATIENCE = 10.0
"""Seconds in which nginx must have begun to work by another configuration."""
PAUSE = 0.02

Worker = tuple[int, int]
"""A process: its pid, and when it was started."""


class Nginx:
    """directory: nginx.conf and replicas/, which it includes; run/ is nginx's own."""

    def __init__(self, directory: str, program: str) -> None:
        self.directory, self.program = directory, program
        self.config = os.path.join(directory, "nginx.conf")
        self.replicas = os.path.join(directory, "replicas")

    # On disk

    def read(self) -> tuple[str, Replicas]:
        """Its configuration and its replicas; nothing where there are none."""
        known = []
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.replicas)):
                path = os.path.join(self.replicas, name)
                if name.endswith(".conf"):
                    known.append(Replica.read(path, _text(path)))
        return _text(self.config), tuple(known)

    def lay(self, config: str, replicas: Replicas) -> None:
        """Both on disk, if nginx takes them. Each file is either as before or as wanted."""
        with self._candidate(config, replicas) as candidate:
            done = programs.run([self.program, "-t", "-q", "-c", candidate], text=True)
            if done.returncode != 0:
                said = " ".join(
                    (done.stderr or done.stdout).replace(os.path.dirname(candidate), self.directory).split()
                )
                raise RouterError(
                    f"nginx refuses the configuration, and goes on with the one before: {said}. Mend the variable of "
                    "vllm_router that this comes from, or the address of the replica."
                )
        for replica in replicas:
            _write(os.path.join(self.replicas, replica.file), replica.text)
        _write(self.config, config)
        for name in set(os.listdir(self.replicas)) - {replica.file for replica in replicas}:
            os.unlink(os.path.join(self.replicas, name))

    @contextlib.contextmanager
    def _candidate(self, config: str, replicas: Replicas) -> Iterator[str]:
        """Both beside those that are in force. What a killed run left there goes."""
        place = os.path.join(self.directory, "candidate")
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(os.path.join(place, "replicas"))
        try:
            for replica in replicas:
                _write(os.path.join(place, "replicas", replica.file), replica.text)
            _write(os.path.join(place, "nginx.conf"), config)
            yield os.path.join(place, "nginx.conf")
        finally:
            shutil.rmtree(place)

    # Running

    def master(self) -> int | None:
        """Its first process; None if it doesn't run."""
        text = _text(os.path.join(self.directory, "run", "nginx.pid")).strip()
        pid = int(text) if text.isdigit() else None
        if pid is None or processes.start_ticks(pid) is None:
            return None
        title = _title(pid)
        return pid if title.startswith(MASTER) and self.config in title else None

    def workers(self, leaving: bool = False) -> set[Worker]:
        """Those that take requests; or those that don't any more, and only bring to an end what they have taken."""
        master = self.master()
        titles = {pid: _title(pid) for pid in processes.living() if master and _parent(pid) == master}
        found = {pid for pid, title in titles.items() if title.startswith(WORKER) and (LEAVING in title) == leaving}
        return {(pid, ticks) for pid in found if (ticks := processes.start_ticks(pid)) is not None}

    def reload(self) -> set[Worker]:
        """Have it work by what is on disk. When this returns no worker takes a request by the configuration before.

        Those that still have one to finish are returned.
        """
        master = self.master()
        if master is None:
            return set()
        before = self.workers()
        os.kill(master, signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while not (now := self.workers()) or now & before:
            if time.monotonic() > deadline:
                raise RouterError(
                    f"nginx (pid {master}) did not begin to work by {self.config} within {PATIENCE:g} s, and goes on with what "
                    "it had. Its log says why, beside it or in the journal of its unit; another process may hold the port."
                )
            time.sleep(PAUSE)
        return self.workers(leaving=True)


def still(workers: set[Worker], seconds: float) -> set[Worker]:
    """Those of them that have not ended in time."""
    deadline = time.monotonic() + seconds
    while True:
        workers = {(pid, ticks) for pid, ticks in workers if processes.start_ticks(pid) == ticks}
        if not workers or time.monotonic() > deadline:
            return workers
        time.sleep(PAUSE)


def _title(pid: int) -> str:
    """What a process calls itself. nginx writes it over its arguments, as one."""
    return " ".join(processes.command_line(pid)).strip()


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            stat = f.read()
    except OSError:
        return None
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _write(path: str, text: str) -> None:
    if _text(path) != text:
        files.write(path, text.encode(), mode=0o644)

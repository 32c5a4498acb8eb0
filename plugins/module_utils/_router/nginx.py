# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An nginx of our own: its configuration, laid down only if nginx takes it, and its workers of today and of yesterday."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import time
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, owners, processes, programs
from ansible_collections.llmops.vllm.plugins.module_utils._router.replicas import Replica, Replicas, RouterError

MASTER, WORKER, LEAVING = "nginx: master process", "nginx: worker process", "is shutting down"
PATIENCE = 10.0
"""Seconds in which nginx must have begun to work by another configuration."""
PAUSE = 0.02
_LISTEN = re.compile(r"^\s*listen (\S+):(\d+);", re.MULTILINE)

Worker = tuple[int, int]
"""A process: its pid, and when it was started."""


class Nginx:
    """directory: nginx.conf and replicas/, which it includes; run/ is nginx's own."""

    def __init__(self, directory: str, program: str) -> None:
        self.directory, self.program = os.path.normpath(directory), program
        self.config = os.path.join(self.directory, "nginx.conf")
        self.replicas = os.path.join(self.directory, "replicas")
        self.run = os.path.join(self.directory, "run")
        self.pidfile = os.path.join(self.run, "nginx.pid")

    # On disk

    def refuse_others(self) -> None:
        """Whoever can change what is here can have whoever runs nginx do anything: a configuration names libraries, a link any file."""
        here = [os.path.join(self.replicas, name) for name in _names(self.replicas)]
        for path in (self.directory, self.replicas, self.run, self.config, self.pidfile, *here):
            uid = owners.whose(_standing(path), trusted=(0, os.geteuid()))
            if uid:
                raise RouterError(
                    f"{path} can be changed by {_user(uid)}, and {_user(os.geteuid())} would run nginx by it. Connect as {_user(uid)} "
                    f"without become, if it is that user's router. Else see what is there, remove it, and have {self.directory} and all "
                    "above it belong to root, or choose another vllm_router_directory."
                )

    def make(self) -> None:
        os.umask(0o022)  # its workers are of another user
        for place in (self.replicas, self.run):
            os.makedirs(place, exist_ok=True)

    def read(self) -> tuple[str, Replicas]:
        """Its configuration and its replicas; nothing where there are none."""
        known = []
        for name in _names(self.replicas):
            path = os.path.join(self.replicas, name)
            if name.endswith(".conf"):
                known.append(Replica.read(path, _text(path)))
        return _text(self.config), tuple(known)

    def change(self, config: str, replicas: Replicas) -> set[Worker]:
        """Have it work by these; else all is as it was. When this returns no worker takes a request by the configuration before.

        Those that still have one to finish are returned.
        """
        before = self.read()
        if before != (config, replicas):
            self._test(config, replicas)
        try:
            if _in_its_own_way(before[0], config) and self.master():
                self._put(config.partition("http {")[0], replicas)
                self._reload()
            self._put(config, replicas)
            # Whatever was written before: the run that wrote it may have been interrupted here.
            return self._reload()
        except RouterError:
            self._put(*before)
            self._tell()
            raise

    def _test(self, config: str, replicas: Replicas) -> None:
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

    def _put(self, config: str, replicas: Replicas) -> None:
        """Each file is either as before or as wanted."""
        for replica in replicas:
            _write(os.path.join(self.replicas, replica.file), replica.text)
        _write(self.config, config)
        for name in set(_names(self.replicas)) - {replica.file for replica in replicas}:
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
        text = _text(self.pidfile).strip()
        pid = int(text) if text.isdigit() else 0
        title = _title(pid)
        if not title.startswith(MASTER):
            return None
        if self.config not in title:
            raise RouterError(
                f"{self.pidfile} names pid {pid}, which calls itself {title!r}, and not {self.config}. If it is this router, end it "
                "(SIGQUIT) and run router.yml; if it is another nginx, remove that file."
            )
        return pid

    def workers(self, leaving: bool = False) -> set[Worker]:
        """Those that take requests; or those that don't any more, and only bring to an end what they have taken."""
        master = self.master()
        titles = {pid: _title(pid) for pid in processes.living() if master and _parent(pid) == master}
        found = {pid for pid, title in titles.items() if title.startswith(WORKER) and (LEAVING in title) == leaving}
        return {(pid, ticks) for pid in found if (ticks := processes.start_ticks(pid)) is not None}

    def _tell(self) -> int | None:
        """Have it read what is on disk; gives back its pid, if it runs."""
        master = self.master()
        if master is not None:
            os.kill(master, signal.SIGHUP)
        return master

    def _reload(self) -> set[Worker]:
        before = self.workers()
        master = self._tell()
        if master is None:
            return set()
        deadline = time.monotonic() + PATIENCE
        while not (now := self.workers()) or now & before:
            if time.monotonic() > deadline:
                raise RouterError(
                    f"nginx (pid {master}) did not begin to work by {self.config} within {PATIENCE:g} s, so all is put back "
                    "as it was. Its log says why, in run/error.log or in the journal of its unit; another process may hold the port. "
                    "Restart it if it does not follow at all."
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


def _in_its_own_way(before: str, after: str) -> bool:
    """Whether it holds the port at another address: it opens what is new before it closes what was."""
    old, new = ({tuple(found) for found in _LISTEN.findall(config)} for config in (before, after))
    return old != new and bool({port for _address, port in old} & {port for _address, port in new})


def _standing(path: str) -> str:
    """The path, or what there is of it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


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


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _write(path: str, text: str) -> None:
    if _text(path) != text:
        files.write(path, text.encode(), mode=0o644)

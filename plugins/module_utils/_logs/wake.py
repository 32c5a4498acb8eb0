# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sleeping until there is something to see: a change of the log, or the end of a process."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Any

POLL = 0.2
"""Between looks where nothing wakes us."""
LOOK = 1.0
"""Between looks where something should: network file systems tell nobody what other hosts write."""
REST = 0.02
"""After waking, for a writer to finish what it is writing."""

_CREATE, _MOVED_TO, _MODIFY, _ATTRIB, _MOVE_SELF, _DELETE_SELF = 0x100, 0x80, 0x2, 0x4, 0x800, 0x400
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC


def _libc() -> Any:
    """The C library, if it has inotify; not every Python was built with ctypes."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        return libc if hasattr(libc, "inotify_init1") else None
    except (ImportError, OSError):
        return None


class Waker:
    """Waits for the log, for a process and for the clock, whichever is first."""

    def __init__(self, path: str = "") -> None:
        self.path = os.fsencode(path)
        self._pidfd, self._pid = -1, 0
        self._libc = _libc() if path else None
        self._inotify = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC) if self._libc else -1

    def wait(self, seconds: float, pid: int = 0, stream: int = -1) -> None:
        """Sleep at most so long; less if the log, as a file or as a stream, or the process stirs."""
        self._watch_process(pid)
        watching = stream >= 0 or self._watch_log()
        poll = select.poll()
        for fd in (self._inotify, self._pidfd, stream):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        limit = LOOK if watching and (self._pidfd >= 0 or not pid) else POLL
        if poll.poll(max(0.0, min(seconds, limit)) * 1000):
            time.sleep(REST)
            if self._inotify >= 0:
                with contextlib.suppress(BlockingIOError):
                    while os.read(self._inotify, 65536):
                        pass

    def close(self) -> None:
        for fd in (self._inotify, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._inotify = self._pidfd = -1

    def _watch_log(self) -> bool:
        """Whether a change of the log wakes us. Its folder tells of a log that appears, or appears anew."""
        if self._libc is None or self._inotify < 0:
            return False
        folder = os.path.dirname(self.path) or b"."
        there = self._libc.inotify_add_watch(self._inotify, folder, _CREATE | _MOVED_TO)
        self._libc.inotify_add_watch(self._inotify, self.path, _MODIFY | _ATTRIB | _MOVE_SELF | _DELETE_SELF)
        return bool(there >= 0)

    def _watch_process(self, pid: int) -> None:
        if pid == self._pid:
            return
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self._pid, self._pidfd = pid, -1
        if pid and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(pid)

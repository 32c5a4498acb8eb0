# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A growing file, read once: by identity and offset, through rotation, truncation and replacement."""

from __future__ import annotations

import os
import stat
from typing import Any, Optional

CHUNK = 256 * 1024


class NotALog(Exception):
    """What is there can't be followed."""


class Follower:
    """Gives a file's bytes from a mark on. When another file takes its place, that one is read from its start."""

    def __init__(self, path: str, mark: Optional[dict[str, Any]] = None, since: str = "start") -> None:
        self.path = path
        self.device = self.inode = 0
        self.offset = 0
        self.generation = 0
        """Grows when reading begins at the top of another file, or of the same one emptied."""
        self.notes: list[str] = []
        self._fd = -1
        self._end = since == "end"
        if mark and mark.get("inode"):
            self.device, self.inode, self.offset = int(mark["device"]), int(mark["inode"]), int(mark["offset"])
            self._end = False

    def mark(self, unread: int = 0) -> dict[str, Any]:
        """Where the next reader goes on. unread: bytes that were given out but not used."""
        return {"path": self.path, "device": self.device, "inode": self.inode, "offset": max(self.offset - unread, 0)}

    @property
    def found(self) -> bool:
        return self._fd >= 0

    def read(self) -> bytes:
        """The next bytes; none at the end of what is there."""
        if self._fd < 0 and not self._open():
            return b""
        data = os.pread(self._fd, CHUNK, self.offset)
        if not data:
            if not self._moved():
                return b""
            data = os.pread(self._fd, CHUNK, self.offset)
        self.offset += len(data)
        return data

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> bool:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            self._end = False  # what appears later is all new
            return False
        except OSError as e:
            raise NotALog(f"Can't read {self.path}: {e.strerror}.") from e
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise NotALog(f"{self.path} is no regular file.")
        if self._end:
            self.offset, self._end = found.st_size, False
        elif self.inode and (self.device, self.inode) != (found.st_dev, found.st_ino):
            rotated = self._rotated()
            if rotated >= 0:
                os.close(fd)
                fd, found = rotated, os.fstat(rotated)
            else:
                self.notes.append(
                    f"{self.path} is another file than the mark's, which is gone; it was read from its start."
                )
                self.offset = 0
        elif found.st_size < self.offset:
            self.notes.append(f"{self.path} was emptied after the mark; it was read from its start.")
            self.offset = 0
        self._fd, self.device, self.inode = fd, found.st_dev, found.st_ino
        return True

    def _rotated(self) -> int:
        """The marked file under the name that rotation gave it, opened; -1 if it isn't beside the log."""
        folder = os.path.dirname(self.path) or "."
        for entry in os.scandir(folder):
            if entry.inode() == self.inode and entry.is_file(follow_symlinks=False):
                fd = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
                if os.fstat(fd).st_dev == self.device:
                    return fd
                os.close(fd)
        return -1

    def _moved(self) -> bool:
        """At the end of the file: whether there is more to read, in a new file or from the top of this one."""
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        if (there.st_dev, there.st_ino) != (self.device, self.inode):
            if os.fstat(self._fd).st_size > self.offset:
                return True  # the last words before the rotation
            os.close(self._fd)
            self._fd, self.device, self.inode, self.offset = -1, 0, 0, 0
            if not self._open():
                return False
            self.notes.append(f"{self.path} was rotated or replaced during the wait.")
        elif there.st_size < self.offset:
            self.offset = 0
            self.notes.append(f"{self.path} was emptied during the wait.")
        else:
            return there.st_size > self.offset
        self.generation += 1
        return True

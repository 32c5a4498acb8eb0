# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A growing file, read once: by identity and offset, through rotation, truncation and replacement."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any

CHUNK = 768 * 1024
"""So much is read at a time. Nearer to 1 MiB the C library hands each block back to the kernel, which costs more than the reading."""
TAIL = 64
"""So many bytes before the offset tell whether a file that was emptied has grown past it again."""


class NotALogError(Exception):
    """What is there can't be followed."""


class Follower:
    """Gives a file's bytes from a mark on. When another file takes its place, that one is read from its start.

    generation: grows whenever reading begins at the top of another file, or of the same one emptied.
    """

    stream = -1
    lag = 0.0

    def __init__(self, path: str, mark: dict[str, Any] | None = None, since: str = "start", tail: bytes = b"") -> None:
        self.path = path
        self.device = self.inode = self.offset = 0
        self.generation = 0
        self.notes: list[str] = []
        self.tail = tail
        self._fd = -1
        self._at_end = True
        self._end = since == "end"
        if mark and mark.get("inode"):
            self.device, self.inode, self.offset = int(mark["device"]), int(mark["inode"]), int(mark["offset"])
            self._end = False

    def __str__(self) -> str:
        return self.path

    def mark(self, unread: int = 0) -> dict[str, Any]:
        """Where the next reader goes on. unread: bytes that were given out but not used."""
        return {"path": self.path, "device": self.device, "inode": self.inode, "offset": max(self.offset - unread, 0)}

    @property
    def found(self) -> bool:
        return self._fd >= 0

    def read(self) -> bytes:
        """The next bytes; none at the end of what is there. Raises NotALogError."""
        with self._reading():
            return self._next()

    def _next(self) -> bytes:
        if self._fd < 0 and not self._open():
            return b""
        if self._at_end and self._emptied(os.fstat(self._fd).st_size):
            self._top(f"{self.path} was emptied during the wait; it was read from its start.")
        data = os.pread(self._fd, CHUNK, self.offset)
        if not data and self._moved():
            data = os.pread(self._fd, CHUNK, self.offset)
        self.offset += len(data)
        self.tail = (self.tail + data)[-TAIL:] if len(data) < TAIL else data[-TAIL:]
        self._at_end = not data
        return data

    def lines_before(self, offset: int) -> int:
        """How many lines of this file lie before an offset. Raises NotALogError."""
        count = at = 0
        while self._fd >= 0 and at < offset:
            with self._reading():
                data = os.pread(self._fd, min(CHUNK, offset - at), at)
            if not data:
                break
            count += data.count(b"\n")
            at += len(data)
        return count

    def settle(self) -> None:
        """What was written is there."""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise NotALogError(f"Can't read {self.path}: {e.strerror}.") from e

    def _open(self) -> bool:
        try:
            link = os.lstat(self.path)
            # Who owns the log's directory could lead root to what only root may read.
            if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid()):
                raise NotALogError(f"{self.path} is a link of another user's, which is not followed.")
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            self._end = False  # what appears later is all new
            return False
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise NotALogError(f"{self.path} is not a regular file.")
        if self._end:
            self.offset, self._end = found.st_size, False
        elif self.inode and (self.device, self.inode) != (found.st_dev, found.st_ino):
            rotated = self._rotated()
            if rotated >= 0:
                os.close(fd)
                fd, found = rotated, os.fstat(rotated)
            else:
                self._top(
                    f"{self.path} is not the file that the mark was made in, which is gone; it was read from its start."
                )
        self._fd, self.device, self.inode = fd, found.st_dev, found.st_ino
        if self._emptied(found.st_size):
            self._top(f"{self.path} was emptied after the mark was made; it was read from its start.")
        return True

    def _moved(self) -> bool:
        """At the end of the file: whether there is more to read, in a new file or from the top of this one."""
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        if (there.st_dev, there.st_ino) == (self.device, self.inode):
            return there.st_size > self.offset
        if os.fstat(self._fd).st_size > self.offset:
            return True  # the last words before it was replaced
        self.close()
        self.device = self.inode = 0
        self._top(f"{self.path} was rotated or replaced during the wait; the new file was read too.")
        return self._open()

    def _emptied(self, size: int) -> bool:
        if size < self.offset:
            return True
        return bool(self.tail) and os.pread(self._fd, len(self.tail), self.offset - len(self.tail)) != self.tail

    def _top(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
        self.generation += 1
        self.offset, self.tail = 0, b""

    def _rotated(self) -> int:
        """The marked file under the name that rotation gave it, opened; -1 if it isn't beside the log."""
        # Who may read the log may be refused its folder, or what rotation made of it.
        with contextlib.suppress(OSError):
            for entry in os.scandir(os.path.dirname(self.path) or "."):
                if entry.inode() == self.inode and entry.is_file(follow_symlinks=False):
                    fd = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
                    if os.fstat(fd).st_dev == self.device:
                        return fd
                    os.close(fd)
        return -1

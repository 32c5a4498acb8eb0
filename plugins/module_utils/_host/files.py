# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are either as before or as wanted, never in between."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator


def write(path: str, data: bytes) -> None:
    """Put data at path at once. A file that is there keeps its mode and owner; a new one may be read by all."""
    directory, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=directory or ".")
    try:
        with os.fdopen(descriptor, "wb") as f:
            f.write(data)
            _resemble(f.fileno(), path)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def link(target: str, path: str) -> None:
    """Make path a symbolic link to target at once, in place of whatever link was there."""
    directory, name = os.path.split(path)
    temporary = tempfile.mktemp(prefix=f".{name}.", suffix=".tmp", dir=directory)
    os.symlink(target, temporary)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold a directory for oneself among those who ask for it the same way. It leaves nothing behind."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _resemble(descriptor: int, pattern: str) -> None:
    try:
        wanted = os.stat(pattern)
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    os.fchmod(descriptor, stat.S_IMODE(wanted.st_mode))
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.fchown(descriptor, wanted.st_uid, wanted.st_gid)

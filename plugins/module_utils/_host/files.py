# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are either as before or as wanted, never in between."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import Any


def write(
    path: str, data: bytes, like: str = "", mode: int | None = None, owner: tuple[int, int] | None = None
) -> None:
    """Put data at path at once. A file that is there keeps its mode and owner; a new one has those of another, or may be
    read by all. A mode or an owner (user and group) that is given goes before that.
    """
    with _beside(path) as (descriptor, temporary):
        # Not opened once more by its name: in a directory of somebody else's that may be another file by now.
        with os.fdopen(descriptor, "wb") as f:
            if mode is None:
                _resemble(f.fileno(), like or path)
            else:
                os.fchmod(f.fileno(), mode)
            if owner:
                os.fchown(f.fileno(), *owner)
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)


def give(directory: str, owner: tuple[int, int]) -> None:
    """Make a directory that is a user's own. Raises PermissionError for a link in its place, and for what is somebody else's.

    The one above it has to be root's or ours, or else the user could put another in its place at any time.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(directory, mode=0o755)
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:
        raise PermissionError(errno.EPERM, "it is a link or a file where a directory should be", directory) from None
    try:
        found = os.fstat(descriptor).st_uid
        if found not in (0, os.geteuid(), owner[0]):
            raise PermissionError(errno.EPERM, "it belongs to another user", directory)
        if found != owner[0]:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)


def link(target: str, path: str) -> None:
    """Make path a symbolic link to target at once, in place of what was there."""
    with _beside(path) as (descriptor, temporary):
        os.close(descriptor)
        os.unlink(temporary)
        os.symlink(target, temporary)
        os.replace(temporary, path)


def ordinary(path: str, flags: int) -> int:
    """For open's opener: OSError for all but files. A pipe may never begin and a device never end, or do something when it is opened."""
    descriptor = os.open(path, flags | os.O_NONBLOCK) if stat.S_ISREG(os.stat(path).st_mode) else -1
    # It may have become something else meanwhile.
    if descriptor < 0 or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        if descriptor >= 0:
            os.close(descriptor)
        raise OSError(f"{path} is no ordinary file")
    return descriptor


def read_json(path: str, opener: Callable[[str, int], int] = ordinary) -> dict[str, Any]:
    """The object in a JSON file, {} where there is none."""
    try:
        with open(path, encoding="utf-8", opener=opener) as f:
            data = json.load(f)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def ours(path: str, flags: int) -> int:
    """For open's opener: OSError for all but files of root's or our own, which others can't have made us believe. No link is followed."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    state = os.fstat(descriptor)
    if stat.S_ISREG(state.st_mode) and state.st_uid in (0, os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "it is no file of root's or our own", path)


def is_leftover(name: str) -> bool:
    """Whether a file is what a writer left behind that was killed."""
    return re.fullmatch(r"\..+\.[^.]{8}\.tmp", name) is not None


def clear(path: str) -> None:
    """Remove what killed writers of a file left beside it. For a sole writer only."""
    directory, name = os.path.split(path)
    for leftover in os.listdir(directory):
        if is_leftover(leftover) and leftover.startswith(f".{name}."):
            os.unlink(os.path.join(directory, leftover))


@contextlib.contextmanager
def sole_writer(directory: str) -> Iterator[None]:
    """Be the only one of those who ask to write into a directory. Leaves no lock file in what is somebody else's."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _beside(path: str) -> Iterator[tuple[int, str]]:
    """A new empty file in the same directory, open, and its name; removed if it hasn't taken the place of path."""
    directory, name = os.path.split(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=directory)
    except OSError as e:
        e.filename = path  # not that of a file nobody asked for
        raise
    try:
        yield descriptor, temporary
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _resemble(descriptor: int, path: str) -> None:
    try:
        old = os.lstat(path)
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    if not stat.S_ISREG(old.st_mode):
        os.fchmod(descriptor, 0o644)
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))

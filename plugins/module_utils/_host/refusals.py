# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operating system refuses, for people: where, why, and what to do."""

from __future__ import annotations

import errno
import os
import stat

IN_THE_WAY = "A file, or a link that leads nowhere, lies where a directory should be: move it away"
REMEDIES = {
    errno.ENOSPC: "Free some space on its disk, or inodes",
    errno.EDQUOT: "Free some space there, or raise the quota",
    errno.EROFS: "Mount its disk for writing (a kernel that meets errors on a disk stops writing to it: see dmesg), or name another place",
    errno.EIO: "Its disk fails: see dmesg",
    errno.EEXIST: IN_THE_WAY,
    errno.ENOTDIR: IN_THE_WAY,
    errno.EISDIR: "A directory lies where a file should be: move it away",
    errno.ELOOP: "A link lies there that leads to itself, or where none may: move it away",
    errno.EACCES: "It belongs to another user: connect as that user, or as root (become)",
    errno.EPERM: "It belongs to another user: connect as that user, or as root (become)",
}

LEAST = 1 << 20
"""Bytes below which a disk counts as full: a log and a pid file need them at once."""


def told(error: OSError, place: str) -> str:
    """In two sentences. place: what is named if the error names nothing."""
    where, why = error.filename or place, error.strerror or str(error)
    remedy = REMEDIES.get(error.errno or 0)
    return f"{where}: {why}. {remedy}." if remedy else f"{where}: {why}."


def no_place(directory: str) -> str:
    """Why nothing can be put into a directory, which need not be there yet; empty if something can."""
    while not os.path.lexists(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    if not os.path.isdir(directory):
        return f"{directory}: {IN_THE_WAY}."
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        return f"{directory}: {os.strerror(errno.EROFS)}. {REMEDIES[errno.EROFS]}."
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"{directory}: {os.strerror(errno.EACCES)}. {REMEDIES[errno.EACCES]}."
    return no_room(directory)


def no_room(path: str) -> str:
    """Why nothing more can be written at a path, which need not be there yet; empty if something can."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        disk = os.statvfs(path)
        enlarged = stat.S_ISREG(os.stat(path).st_mode)  # or something new is to come
    except OSError:
        return ""
    free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    if disk.f_blocks and free < LEAST:
        left = f"{free} bytes"
    elif disk.f_files and not disk.f_ffree and not enlarged:
        left = "no inodes"
    else:
        return ""
    return f"The disk of {path} is full: it has {left} free. Free some space on it."

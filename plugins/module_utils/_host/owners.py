# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom root has to become before it runs what lies in another's hands."""

from __future__ import annotations

import os
import pathlib
import pwd
from collections.abc import Collection
from typing import Any


def whose(*paths: str, trusted: Collection[int] = (0,)) -> int:
    """The uid of who can change what is at one of the paths: the first on the way to it that isn't trusted, links followed or not."""
    for path in paths:
        for way in (os.path.abspath(path), os.path.realpath(path)):
            for part in (*reversed(pathlib.Path(way).parents), pathlib.Path(way)):
                uid = os.lstat(part).st_uid
                if uid not in trusted:
                    return uid
    return 0


def become(uid: int) -> dict[str, Any]:
    """What makes subprocess run a command as a user, with that user's groups; nothing unless root would be someone else.

    Raises KeyError for a uid of which the host has no user.
    """
    if os.geteuid() or not uid:
        return {}
    user = pwd.getpwuid(uid)
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": uid, "group": user.pw_gid, "extra_groups": groups}


def environment() -> dict[str, str]:
    """Of our environment only where programs and libraries are: the rest, as a token or a home, is not theirs."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which snapshots a host can do without: those that no release of any instance names, neither itself nor by an overlay."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import locks
from ansible_collections.llmops.vllm.plugins.module_utils._models import listing, snapshot


class UnknownNeedsError(Exception):
    """What a release needs can't be read, so nothing may be removed."""


@dataclasses.dataclass(frozen=True)
class Surplus:
    """path: of the snapshot, or where it would be if a fetch was not finished. size: bytes on the disk."""

    path: str
    size: int

    @property
    def job(self) -> str:
        return snapshot.job_of(self.path)


def surplus(home: str, older: float) -> list[Surplus]:
    """What no release names and nothing has happened to for so many seconds, as it may be about to be served. Raises UnknownNeedsError."""
    needed, now = named(home), time.time()
    found = []
    models = os.path.join(home, "models")
    places = {
        os.path.join(models, *path.split(os.sep)[-2:])
        for directory in (models, os.path.join(models, snapshot.JOBS))
        for path in glob.glob(os.path.join(glob.escape(directory), "*", "*"))
        if listing.SHA.fullmatch(os.path.basename(path))
    }
    for path in sorted(places):
        one = Surplus(path, _size(path) + _size(snapshot.job_of(path)))
        if os.path.realpath(path) not in needed and now - _last_change(one) >= older:
            found.append(one)
    return found


def named(home: str) -> set[str]:
    """The directories that releases name, and those that the links of the overlays that they name lead into. Raises UnknownNeedsError."""
    needed = set()
    for path in glob.glob(os.path.join(glob.escape(home), "instances", "*", "releases", "*", "release.json")):
        try:
            with open(path, encoding="utf-8") as f:
                texts = list(_texts(json.load(f)))
        except (OSError, ValueError) as e:
            raise UnknownNeedsError(f"{path} can't be read ({e})") from None
        for text in (text for text in texts if text.startswith("/")):
            needed.add(os.path.realpath(text))
            if os.path.isdir(text):
                links = (os.path.join(text, name) for name in os.listdir(text))
                needed.update(os.path.dirname(os.path.realpath(link)) for link in links if os.path.islink(link))
    return needed


def remove(one: Surplus) -> bool:
    """Whether it could be removed: what is being fetched, or served to other hosts, stays."""
    with contextlib.ExitStack() as held:
        for name in ("lock", "serve.lock"):
            if os.path.isdir(one.job) and not held.enter_context(locks.if_free(os.path.join(one.job, name))):
                return False
        # The record goes first: what is half removed is no snapshot.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(one.path, snapshot.RECORD))
        for path in (one.path, one.job):
            if os.path.isdir(path):
                shutil.rmtree(path)
    for path in (one.path, one.job):
        with contextlib.suppress(OSError):  # others are in it
            os.rmdir(os.path.dirname(path))
    return True


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, (list, dict)):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _texts(value)


def _size(path: str) -> int:
    walked = (os.path.join(parent, name) for parent, _directories, names in os.walk(path) for name in names)
    return sum(state[0] for state in map(snapshot.state, walked) if state)


def _last_change(one: Surplus) -> float:
    times = [0.0]
    for path in (os.path.join(one.path, snapshot.RECORD), one.path, one.job):
        with contextlib.suppress(FileNotFoundError):
            times.append(os.stat(path).st_mtime)
    return max(times)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which builds a host keeps: the newest that are whole, and those that a release names."""

from __future__ import annotations

import glob
import os
import shutil

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks


def named(home: str) -> set[str] | None:
    """The builds that any release of any instance names, by id or by the path of the venv. None if a release can't be read."""
    builds = os.path.realpath(os.path.join(home, "builds"))
    names = set()
    for path in glob.glob(os.path.join(glob.escape(home), "instances", "*", "releases", "*", "release.json")):
        build = files.read_json(path).get("build")
        if not isinstance(build, dict):
            return None
        names.add(str(build.get("id")))
        directory = os.path.realpath(os.path.dirname(str(build.get("venv"))))
        if os.path.dirname(directory) == builds:
            names.add(os.path.basename(directory))
    return names


def surplus(home: str, keep: int) -> list[str]:
    """The builds beyond the newest, oldest last, and what was begun and not finished; without those that are named."""
    stamps = glob.glob(os.path.join(glob.escape(home), "builds", "*", "build.json"))
    newest_first = [os.path.dirname(stamp) for stamp in sorted(stamps, key=os.path.getmtime, reverse=True)]
    # A lock tells that an installer was there: without one, somebody may just be laying down what it needs.
    begun = [os.path.dirname(lock) for lock in sorted(glob.glob(lock_of(os.path.join(glob.escape(home), "builds", "*"))))]
    needed = named(home)
    if needed is None:  # who knows what it needs
        return []
    over = [*newest_first[max(keep, 1) :], *(path for path in begun if path not in newest_first)]
    return [path for path in over if os.path.basename(path) not in needed]


def prune(home: str, keep: int) -> list[str]:
    """Remove the surplus; what is being built stays."""
    removed = []
    for path in surplus(home, keep):
        with locks.if_free(lock_of(path)) as free:
            if free:
                # The stamp goes first: what is half removed is no build.
                for name in ("build.json", "venv"):
                    if os.path.lexists(os.path.join(path, name)) and not os.path.isdir(os.path.join(path, name)):
                        os.unlink(os.path.join(path, name))
                shutil.rmtree(path)
                removed.append(os.path.basename(path))
    return removed


def lock_of(build: str) -> str:
    return os.path.join(build, "build.lock")

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two hosts have the same model, at the cost of a look at its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._host import files

READ = 1 << 20  # bytes of a JSON file


def fingerprint(path: str) -> str | None:
    """Of the names and sizes of all files, and what is in the JSON files; None if there is nothing at path. Raises OSError.

    Links count as what they lead to, as a snapshot in a cache and an overlay are made of them. What is hidden doesn't count: the
    records of those who fetched it, with times in them.
    """
    if not os.path.exists(path):
        return None
    digest = hashlib.sha256()
    names = _names(path, "", frozenset()) if os.path.isdir(path) else [os.path.basename(path)]
    for name in sorted(names, key=os.fsencode):
        whole = os.path.join(path, name) if os.path.isdir(path) else path
        size = os.stat(whole).st_size if os.path.exists(whole) else "leads nowhere"
        digest.update(b"%s\0%s\0" % (os.fsencode(name), str(size).encode()))
        if name.endswith(".json") and os.path.isfile(whole):
            with open(whole, "rb", opener=files.ordinary) as f:
                digest.update(hashlib.sha256(f.read(READ)).digest())
    return digest.hexdigest()


def _names(path: str, within: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """above: the directories that led here, as a link may lead back to one."""
    about = os.stat(os.path.join(path, within))
    here = (about.st_dev, about.st_ino)
    if here in above:
        return
    for name in os.listdir(os.path.join(path, within)):
        inner = os.path.join(within, name)
        if name.startswith("."):
            continue
        if os.path.isdir(os.path.join(path, inner)):
            yield from _names(path, inner, above | {here})
        else:
            yield inner

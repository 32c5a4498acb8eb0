# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that the collection knows: those that its roles and playbooks name anywhere. So there is no list that could go stale."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"\bvllm_[a-z0-9_]*[a-z0-9]\b")
OPTION = re.compile(r"^(vllm_\w+):", re.MULTILINE)
SHORT = 5
"""Letters of a word up to which another letter makes it another word: a sort is no port."""
SLIPS = 2
"""As many letters of a name may be off: swapped, missing, doubled or, in a long word, others."""


@functools.cache
def known() -> frozenset[str]:
    """All that are named anywhere, as an own variable of a role too. No other is of any effect."""
    files = [file for place in ("roles", "playbooks") for file in (ROOT / place).rglob("*")]
    return _named(file for file in files if file.suffix in (".yml", ".j2"))


@functools.cache
def public() -> frozenset[str]:
    """Those that people set: the defaults of the roles, and what playbooks name of their own."""
    defaults = [file.read_text(encoding="utf-8") for file in (ROOT / "roles").glob("*/defaults/main.yml")]
    roles = {role.name for role in (ROOT / "roles").iterdir()}
    return frozenset(name for text in defaults for name in OPTION.findall(text)) | (
        _named((ROOT / "playbooks").glob("*.yml")) - roles
    )


def _named(files: Iterable[Path]) -> frozenset[str]:
    return frozenset(name for file in files for name in OURS.findall(file.read_text(encoding="utf-8")))


def unknown(names: Iterable[str]) -> dict[str, str]:
    """Of these the names that are misspelt, each with the one that is meant. Any other is its owner's, however it begins."""
    found = {}
    for name in sorted(set(names) - known()):
        slips = {meant: off for meant in sorted(public()) if (off := _slips(name, meant)) <= SLIPS}
        if slips:
            found[name] = min(slips, key=lambda meant: slips[meant])
    return found


def _slips(name: str, meant: str) -> int:
    """By how many letters the one misses the other, more than SLIPS if it is a name of its own."""
    more = name[len(meant) :] if name.startswith(meant) else ""
    if more and more != meant[-1]:
        return SLIPS + 1  # a plural, or a name with a word, a letter or a number after it
    if name.replace("_", "") == meant.replace("_", ""):
        return 1
    words, others = name.split("_"), meant.split("_")
    if len(words) != len(others):
        return SLIPS + 1
    off = 0
    for word, other in zip(words, others):
        letters = _distance(word, other)
        swapped = sorted(word) == sorted(other)
        if len(other) <= SHORT and (letters > 1 or (len(word) == len(other) and not swapped)):
            return SLIPS + 1
        off += letters
    return off


def _distance(one: str, other: str) -> int:
    """Of how many letters the one has to be changed, given, robbed, or swapped with its neighbour to be the other."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(row[-1] + 1, rows[-1][j] + 1, rows[-1][j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], wanted):
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that the collection knows: those that its roles and playbooks name anywhere. So there is no list that could go stale."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"\bvllm_[a-z0-9_]*[a-z0-9]\b")
OPTION = re.compile(r"^(vllm_\w+):", re.MULTILINE)
NEAR = 0.85
"""How alike two names are, of 1, of which the one may be meant by the other."""


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
    """Of these the names that nothing here reads though they look as if, each with the one that may be meant, or nothing.

    A name that begins as no other of ours does may be anybody's, unless it is one of ours but for a letter.
    """
    beginnings = tuple({f"{name.rsplit('_', name.count('_') - 1)[0]}_" for name in public() if name.count("_") > 1})
    found = {}
    for name in sorted(set(names) - known()):
        near = difflib.get_close_matches(name, sorted(public()), 1, NEAR)
        if near or name.startswith(beginnings):
            found[name] = near[0] if near else ""
    return found

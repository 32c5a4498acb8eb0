# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: release_changes
short_description: What makes one release another one than that before
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Compares the contents of two C(release.json) and tells in words what differs.
  - Of the environment a release holds only a digest, since there may be secrets in it.
options:
  _input:
    description: The release before.
    type: dict
    required: true
  after:
    description: The release now.
    type: dict
    required: true
positional: after
"""

EXAMPLES = r"""
- name: Two releases
  ansible.builtin.debug:
    msg: "{{ before | llmops.vllm.release_changes(after) }}"
    # ["arguments: --max-num-seqs=4 -> --max-num-seqs=8", "environment: another one"]
"""

RETURN = r"""
_value:
  description: One line for each thing that differs.
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any, Callable

NAMES = {"build": "build", "target": "target", "drafter": "drafter", "url": "address"}
SPEAKING = ("id", "version", "path")
"""These need no name beside them."""


def release_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    told = [
        f"{name}: {_words(before.get(key), after.get(key))} -> {_words(after.get(key), before.get(key))}"
        for key, name in NAMES.items()
        if before.get(key) != after.get(key)
    ]
    old, new = list(before.get("argv", [])), list(after.get("argv", []))
    gone, come = [a for a in old if a not in new], [a for a in new if a not in old]
    if old != new:
        told.append(f"arguments: {' '.join(gone) or 'none'} -> {' '.join(come) or 'none'}")
    told += [
        f"{name}: another one"
        for key, name in {"environment": "environment", "launcher": "launch script"}.items()
        # The launch script holds the arguments, so with other ones it is another one anyway.
        if before.get(key) != after.get(key) and not (key == "launcher" and old != new)
    ]
    return told


def _words(value: Any, other: Any) -> str:
    """What tells a value from the other one. A digest does only where the path is the same: that of an overlay holds it already."""
    if not isinstance(value, Mapping):
        return str(value)
    than = other if isinstance(other, Mapping) else {}
    told = {key: v for key, v in value.items() if isinstance(v, (str, int)) and v != than.get(key)}
    if "path" in told:
        told.pop("digest", None)
    return " ".join(str(v) if key in SPEAKING else f"{key} {str(v)[:12]}" for key, v in told.items()) or "none"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"release_changes": release_changes}

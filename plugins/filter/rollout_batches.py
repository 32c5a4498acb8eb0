# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_batches
short_description: Batches of hosts that cut no deployment in two
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Makes of the wished batches those that C(serial) of a play takes. They mean what they mean there. A number is so many hosts, 0 all that are
    left, a percentage is of all hosts and at least one, and the last batch is repeated until no host is left.
  - A batch that would hold some hosts of a deployment and not all is made longer until it holds all. Those after it are as long as they were
    wished, while there are hosts.
positional: hosts, deployments
options:
  _input:
    description: The wished batches. A list of numbers and percentages, or the same as one text with commas.
    type: raw
    required: true
  hosts:
    description: The names of all hosts of the play, in its order. If there are none the wished batches are returned as they are.
    type: list
    elements: str
    required: true
  deployments:
    description: By host the name of its deployment. Empty or missing where it serves alone.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: First one deployment, then the rest
  hosts: gpu1,gpu2,gpu3,gpu4
  serial: "{{ [1, '100%'] | llmops.vllm.rollout_batches(['gpu1', 'gpu2', 'gpu3', 'gpu4'], {'gpu1': 'large', 'gpu2': 'large'}) }}"
  # [2, 2]
  tasks: []
"""

RETURN = r"""
_value:
  description: How many hosts each batch has. Together these are all hosts.
  type: list
  elements: int
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError


def rollout_batches(wished: Any, hosts: Iterable[str], deployments: Mapping[str, str]) -> list[Any]:
    parts, names = _parts(wished), list(hosts)
    # Without them nothing is known that would be better than what Ansible makes of the wished ones.
    if not names:
        return parts
    sizes = [_size(part, len(names)) for part in parts] or [0]
    ends = _ends(names, deployments)
    batches: list[int] = []
    begin = 0
    while begin < len(names):
        size = sizes[min(len(batches), len(sizes) - 1)]
        end = _whole(begin, min(begin + size, len(names)) if size > 0 else len(names), ends)
        batches.append(end - begin)
        begin = end
    return batches


def _ends(names: list[str], deployments: Mapping[str, str]) -> list[int]:
    """By host the place behind the last one of its deployment."""
    last = {deployments.get(name): place for place, name in enumerate(names, 1)}
    return [last[deployments[name]] if deployments.get(name) else place for place, name in enumerate(names, 1)]


def _whole(begin: int, end: int, ends: list[int]) -> int:
    """Where a batch ends that cuts nothing. What it takes in for one deployment may begin another."""
    while True:
        further = max(ends[begin:end])
        if further <= end:
            return end
        end = further


def _parts(wished: Any) -> list[Any]:
    if not isinstance(wished, (list, tuple)):
        wished = [wished]
    # A survey gives a text.
    return [
        part.strip() if isinstance(part, str) else part
        for each in wished
        for part in (each.split(",") if isinstance(each, str) else [each])
    ]


def _size(part: Any, count: int) -> int:
    """As ansible.utils.helpers.pct_to_int has it."""
    text = "" if isinstance(part, bool) else str(part)
    if re.fullmatch(r"-?\d+%", text):
        return int(int(text[:-1]) / 100.0 * count) or 1
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    raise AnsibleFilterError(
        f"{part!r} is no batch of hosts. A batch is a whole number such as 1 or a percentage such as 25%, and several are a list or "
        "a text with commas: set vllm_rollout_batches to 1,25%,100%."
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rollout_batches": rollout_batches}

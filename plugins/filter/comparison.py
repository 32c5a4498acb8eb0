# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: comparison
short_description: The figures of two measurements side by side
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Takes what M(llmops.vllm.acceptance_probe) returned before and after a change, once or several times, and keeps the figures that say
    whether it helped. Several measurements are taken as one long one.
positional: _input, after
options:
  _input:
    description: The measurements before.
    type: list
    elements: dict
    required: true
  after:
    description: The measurements after.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep the figures
  ansible.builtin.set_fact:
    figures: "{{ [before] | llmops.vllm.comparison([after]) }}"
"""

RETURN = r"""
_value:
  description:
    - C(before) and C(after), each with C(acceptance_length), C(acceptance_rate) and C(position_0) (both from 0 to 1),
      C(tokens_per_second), and C(each_tokens_per_second), that of each measurement in order.
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any, Callable

Measurements = Sequence[Mapping[str, Any]]


def comparison(before: Measurements, after: Measurements) -> dict[str, dict[str, Any]]:
    return {"before": _together(before), "after": _together(after)}


def _together(measured: Measurements) -> dict[str, Any]:
    drafts, drafted, accepted, tokens = (_sum(measured, key) for key in ("drafts", "drafted", "accepted", "tokens"))
    gained = _ratio(accepted, drafts)
    speeds = [m["tokens_per_second"] for m in measured]
    seconds = sum(m["tokens"] / m["tokens_per_second"] for m in measured) if all(speeds) else 0
    first = [m["position_0"] for m in measured]
    return {
        "acceptance_length": None if gained is None else round(1 + gained, 4),
        "acceptance_rate": _ratio(accepted, drafted),
        "position_0": None if None in first else _ratio(sum(m["position_0"] * m["drafts"] for m in measured), drafts),
        "tokens_per_second": _ratio(tokens, seconds),
        "each_tokens_per_second": speeds,
    }


def _sum(measured: Measurements, key: str) -> int:
    return sum(m[key] for m in measured)


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"comparison": comparison}

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
  - Takes what M(llmops.vllm.acceptance_probe) returned before and after a change and keeps the figures that say whether it helped.
positional: _input, after
options:
  _input:
    description: The measurement before.
    type: dict
    required: true
  after:
    description: The measurement after.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep the figures
  ansible.builtin.set_fact:
    figures: "{{ before | llmops.vllm.comparison(after) }}"
"""

RETURN = r"""
_value:
  description:
    - C(before) and C(after), each with C(acceptance_length), C(acceptance_rate) and C(position_0) (both from 0 to 1), C(tokens_per_second).
  type: dict
"""

from collections.abc import Mapping
from typing import Any, Callable

FIGURES = ("acceptance_length", "acceptance_rate", "position_0", "tokens_per_second")


def comparison(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {figure: m[figure] for figure in FIGURES} for name, m in (("before", before), ("after", after))}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"comparison": comparison}

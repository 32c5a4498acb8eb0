# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: comparison_table
short_description: A comparison as a table to read
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Lays out what the filter P(llmops.vllm.comparison#filter) returns in columns of plain text.
options:
  _input:
    description: The comparison.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show it
  ansible.builtin.debug:
    msg: "{{ figures | llmops.vllm.comparison_table }}"
"""

RETURN = r"""
_value:
  description: The table, lines of text.
  type: str
"""

from collections.abc import Mapping
from typing import Any, Callable

ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("acceptance length", "acceptance_length", "{:.2f}".format),
    ("acceptance rate", "acceptance_rate", "{:.1%}".format),
    ("position 0", "position_0", "{:.1%}".format),
    ("tokens per second", "tokens_per_second", "{:.0f}".format),
)


def comparison_table(figures: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{'drafter':<18}{'before':>10}{'after':>10}"]
    for title, key, spell in ROWS:
        cells = ["-" if figures[column][key] is None else spell(figures[column][key]) for column in ("before", "after")]
        lines.append(f"{title:<18}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"comparison_table": comparison_table}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Names of variables that are misspelt
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Of the names of variables those that this collection does not read, though they differ only by a letter or two from one that it reads.
  - A plural of such a name, and one with a word or a number after it, is a name of its own, as is all that is near to none of ours.
options:
  _input:
    description: The names of a host's variables.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Tell what is misspelt
  ansible.builtin.debug:
    msg: "{{ query('ansible.builtin.varnames', '^vllm_') | llmops.vllm.unknown_variables }}"
    # ["There is no variable vllm_serve_prot. Is vllm_serve_port meant?"]
"""

RETURN = r"""
_value:
  description: A sentence about each, with the name that is probably meant.
  type: list
  elements: str
"""

from collections.abc import Iterable
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.plugin_utils.variables import unknown


def unknown_variables(names: Iterable[str]) -> list[str]:
    return [f"There is no variable {name}. Is {meant} meant?" for name, meant in unknown(names).items()]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"unknown_variables": unknown_variables}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bare_addresses
short_description: A text whose addresses hold no secret
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Takes users, passwords and queries, which may be a signature, out of the addresses in a text. All else stays.
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Say where it comes from
  ansible.builtin.debug:
    msg: "{{ 'https://me:secret@host/vllm.whl?signature=secret#sha256=abc' | llmops.vllm.bare_addresses }}"
    # https://host/vllm.whl#sha256=abc
"""

RETURN = r"""
_value:
  description: The text with bare addresses.
  type: str
"""

from typing import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets


class FilterModule:
    def filters(self) -> dict[str, Callable[[str], str]]:
        return {"bare_addresses": secrets.bare}

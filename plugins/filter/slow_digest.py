# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: slow_digest
short_description: A digest of a text that may hold secrets
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Tells whether two texts are the same where only their digests can be read. It takes some 50 ms, on purpose, so that trying out what
    a short secret may be costs as much each time.
  - The same text has the same digest everywhere.
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Name something after an environment
  ansible.builtin.debug:
    msg: "{{ {'HF_TOKEN': token} | to_json(sort_keys=true) | llmops.vllm.slow_digest }}"
"""

RETURN = r"""
_value:
  description: 32 hexadecimal digits.
  type: str
"""

from typing import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets


class FilterModule:
    def filters(self) -> dict[str, Callable[[str], str]]:
        return {"slow_digest": secrets.digest}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: flags
short_description: A dictionary of flags as command-line arguments
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Turns a dictionary of vLLM's own flag names into a list of arguments, in the order of their names, so that the same dictionary
    always gives the same list.
  - V(true) gives C(--flag), V(false) gives C(--no-flag), a dictionary gives JSON, a list gives several values, null or an empty list
    leaves the flag out.
  - Refuses C(api-key) and C(hf-token), since arguments can be read by everybody on the host.
options:
  _input:
    description: The flags and their values. Underscores in names are taken as hyphens.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Two arguments
  ansible.builtin.debug:
    msg: "{{ {'tensor-parallel-size': 2, 'enable-prefix-caching': false} | llmops.vllm.flags }}"
    # ["--no-enable-prefix-caching", "--tensor-parallel-size=2"]
"""

RETURN = r"""
_value:
  description: The arguments.
  type: list
  elements: str
"""

import json
from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

SECRET = {
    "api-key": "set vllm_serve_api_key instead.",
    "hf-token": "set HF_TOKEN in vllm_serve_env instead.",
}


def flags(options: Mapping[str, Any]) -> list[str]:
    if not isinstance(options, Mapping):
        raise AnsibleFilterError(f"flags takes a dictionary such as {{'max-model-len': 32768}}, not {options!r}")
    named = sorted((str(name).lstrip("-").replace("_", "-"), value) for name, value in options.items())
    for name, _value in named:
        if name in SECRET:
            raise AnsibleFilterError(
                f"{name} is a secret, and everybody on the host can read arguments: {SECRET[name]}"
            )
    return [argument for name, value in named for argument in _arguments(name, value)]


def _arguments(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, Mapping):
        return [f"--{name}={json.dumps(value, ensure_ascii=False)}"]
    if isinstance(value, (list, tuple)):
        return [f"--{name}", *map(_word, value)] if value else []
    # One word, so that a value may begin with a hyphen.
    return [f"--{name}={value}"]


def _word(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
        else json.dumps(value, ensure_ascii=False)
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"flags": flags}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: adopted
short_description: The variables by which the roles of this collection would make a server that is there
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Takes the venv, the models, the arguments and the environment as they are. Secrets are masked in what M(llmops.vllm.vllm_doctor)
    returns, and what is masked is left out. So is what Ansible would take for a template.
  - Fails for a server in a container, whose paths the host doesn't have, for one whose venv or models are not known, and for one whose
    arguments are not such as vLLM could have started with.
options:
  _input:
    description: One of the C(servers) that M(llmops.vllm.vllm_doctor) returns.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep them
  ansible.builtin.copy:
    content: "{{ doctor.servers[0] | llmops.vllm.adopted | to_nice_yaml }}"
    dest: "{{ inventory_dir }}/host_vars/{{ inventory_hostname }}/vllm.yml"
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The variables.
  type: dict
"""

import re
from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import masking
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK

OWN = (
    "host",
    "port",
    "model",
    "speculative-config",
    "api-key",
    "hf-token",
    "revision",
    "tokenizer-revision",
    "code-revision",
)
"""Flags that have variables of their own, or that a path makes needless."""
GIVEN = (
    "HF_HUB_OFFLINE",
    "VLLM_NO_USAGE_STATS",
    "VLLM_ENGINE_READY_TIMEOUT_S",
    "VLLM_API_KEY",
    "TORCHINDUCTOR_CACHE_DIR",
)
"""Variables that the roles set themselves."""
SETTLED = ("method", "model", "revision")
"""Keys of the speculative config that the roles set themselves."""


def adopted(server: Mapping[str, Any]) -> dict[str, Any]:
    if "container" in server["keeper"]:
        raise AnsibleFilterError(
            f"pid {server['pid']} runs in a {server['keeper']}, and the host has none of its paths"
        )
    speculative = server["flags"].get("speculative-config") or {}
    if not isinstance(speculative, Mapping):
        raise AnsibleFilterError(
            f"the --speculative-config of pid {server['pid']} is no dictionary, but {speculative!r}. vLLM takes JSON there: see that no shell "
            "takes the quotes away, and adopt the server when it runs"
        )
    venv = re.sub(r"/bin/[^/]+$", "", server["python"])
    missing = [
        name
        for name, known in (
            ("its venv", venv != server["python"]),
            ("its target", server.get("target")),
            ("its drafter", server.get("drafter")),
        )
        if not known
    ]
    if missing:
        raise AnsibleFilterError(
            f"{' and '.join(missing)} of pid {server['pid']} is not known, so it can't be made again from here"
        )
    variables = {
        "vllm_user": server["user"],
        "vllm_build_mode": "existing",
        "vllm_build_venv": venv,
        "vllm_models_target": {"path": server["target"]},
        "vllm_models_drafter": {"path": server["drafter"]},
        "vllm_serve_host": server["host"],
        "vllm_serve_port": server["port"],
        "vllm_serve_args": {name: value for name, value in server["flags"].items() if name not in OWN},
        "vllm_serve_speculative": {name: value for name, value in speculative.items() if name not in SETTLED},
        "vllm_serve_env": {
            name: value
            for name, value in (server.get("environment") or {}).items()
            if name not in GIVEN and not name.startswith(("LLMOPS_", "PYTHON"))
        },
    }
    return {name: value for name, value in masking.without(variables, (MASK, *masking.TEMPLATE)).items() if value != {}}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"adopted": adopted}

#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_check
short_description: Find what is wrong with the arguments of a launch before anything is stopped for it
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Judges the flags of C(vllm serve), the speculative config and the environment against each other, against the drafter's
    C(config.json) and against the GPUs of the host. Fails with all that is wrong at once.
  - Only what is known is judged. What vLLM would choose by itself is left to it.
options:
  args:
    description: The flags, in vLLM's own names.
    type: dict
    required: true
  speculative:
    description: The speculative config, method and model included.
    type: dict
    required: true
  argv:
    description: The command line that was made of them. Every dictionary must be found in it as it was given.
    type: list
    elements: str
    default: []
  drafter:
    description: The directory of the drafter.
    type: path
    required: true
  version:
    description: The version of vLLM.
    type: str
    default: ""
  environment:
    description:
      - E(VLLM_ENGINE_READY_TIMEOUT_S), E(VLLM_USE_V2_MODEL_RUNNER) and E(CUDA_VISIBLE_DEVICES) of the server, where set. Give no others,
        as there may be secrets among them.
    type: dict
    default: {}
  timeout:
    description: Seconds that will be waited for the server.
    type: float
    default: 0
  host:
    description: The address to listen on. Any but a loopback address needs a key.
    type: str
    default: 127.0.0.1
  port:
    description: The port to listen on.
    type: int
    default: 8000
  has_api_key:
    description: Whether clients must send a key.
    type: bool
    default: false
  deployment:
    description:
      - Where several hosts run this server together. What is judged besides is whether they can share the workers, as O(args) has them, and
        whether the part of this host fits its GPUs.
    type: dict
    suboptions:
      hosts:
        description: How many hosts.
        type: int
        required: true
      executor:
        description: What spreads the workers over the hosts.
        type: str
        choices: [mp, ray]
        default: mp
      directory:
        description: Where Ray would put its files, which takes a short path.
        type: path
        default: ""
      has_token:
        description: Whether there is a token that Ray's processes know each other by.
        type: bool
        default: false
extends_documentation_fragment:
  - llmops.vllm.read_only
"""

EXAMPLES = r"""
- name: Refuse what could never run
  llmops.vllm.launch_check:
    args: {tensor-parallel-size: 2, max-num-seqs: 64, max-num-batched-tokens: 8192}
    speculative: {method: dflash, model: /opt/vllm/overlays/d-1155c2798b38, num_speculative_tokens: 15}
    drafter: /opt/vllm/overlays/d-1155c2798b38
    version: 0.32.0

- name: Refuse what two hosts can't share
  llmops.vllm.launch_check:
    args: {tensor-parallel-size: 8, pipeline-parallel-size: 2}
    speculative: {method: dflash, model: /opt/vllm/overlays/d-1155c2798b38, num_speculative_tokens: 15}
    drafter: /opt/vllm/overlays/d-1155c2798b38
    version: 0.32.0
    deployment: {hosts: 2}
"""

RETURN = r"""
faults:
  description: What is wrong, each with its remedy.
  returned: always
  type: list
  elements: str
environment:
  description: Variables that the launch needs besides, such as the one that chooses the runner of a drafter with mixed layers.
  returned: always
  type: dict
  sample: {"VLLM_USE_V2_MODEL_RUNNER": "1"}
workers:
  description: How many workers each host has, null where that can't be told.
  returned: always
  type: int
  sample: 8
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._engine import arguments
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, gpus


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "args": {"type": "dict", "required": True},
            "speculative": {"type": "dict", "required": True},
            "argv": {"type": "list", "elements": "str", "default": []},
            "drafter": {"type": "path", "required": True},
            "version": {"type": "str", "default": ""},
            "environment": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 0},
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "default": 8000},
            "has_api_key": {"type": "bool", "default": False, "no_log": False},
            "deployment": {
                "type": "dict",
                "options": {
                    "hosts": {"type": "int", "required": True},
                    "executor": {"type": "str", "choices": ["mp", "ray"], "default": "mp"},
                    "directory": {"type": "path", "default": ""},
                    "has_token": {"type": "bool", "default": False, "no_log": False},
                },
            },
        },
        supports_check_mode=True,
    )
    p = module.params
    deployment = p["deployment"] or {"hosts": 1, "executor": "mp", "directory": "", "has_token": False}
    launch = arguments.Launch(
        args=p["args"],
        speculative=p["speculative"],
        argv=p["argv"],
        # A broken one is for drafter_config to tell of.
        drafter=files.read_json(os.path.join(p["drafter"], "config.json")),
        version=p["version"],
        gpus=gpus.count() or None,  # none that can be seen may as well be an engine for the CPU
        environment={name: str(value) for name, value in p["environment"].items() if value is not None},
        timeout=p["timeout"],
        host=p["host"],
        port=p["port"],
        has_key=p["has_api_key"],
        hosts=deployment["hosts"],
        executor=deployment["executor"],
        directory=deployment["directory"],
        has_token=deployment["has_token"],
    )
    result: dict[str, Any] = {
        "faults": arguments.faults(launch),
        "environment": arguments.needed(launch),
        "workers": arguments.workers(launch),
    }
    if result["faults"]:
        module.fail_json(msg="\n".join(["Nothing was stopped or started.", *result["faults"]]), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Tell the GPUs of a host and who uses them
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Reads memory and processes of all NVIDIA GPUs from C(nvidia-smi).
  - A host without it has no GPUs, which is no failure. A driver that tells nothing, or hangs, isn't one either, unless the GPUs have to
    be O(unused); RV(error) says so.
options:
  home:
    description:
      - A directory whose launch scripts started what is our own. What else uses the GPUs is returned as RV(in_the_way).
    type: path
  devices:
    description:
      - The GPUs that are meant, as E(CUDA_VISIBLE_DEVICES) names them. All, unless given.
      - What uses other ones is not in the way. A GPU that is cut up into MIG devices is taken as one.
    type: str
  unused:
    description: Fail, and name what uses the GPUs, if something does that is not our own or if that can't be told.
    type: bool
    default: false
  allowed:
    description: MiB of a GPU's memory that may be used by no process that can be seen, as by a display or the driver itself.
    type: int
    default: 1024
extends_documentation_fragment:
  - llmops.vllm.read_only
"""

EXAMPLES = r"""
- name: Wait until nobody else uses the GPUs
  llmops.vllm.gpu_info:
    home: /opt/vllm
    devices: "0,1"
    unused: true
  register: gpus
  until: gpus is succeeded
  retries: 30
  delay: 10
"""

RETURN = r"""
gpus:
  description: The GPUs, by index. Memory is in MiB, null where the driver does not tell.
  returned: always
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-5c4c7e11-0c4e-4d5b-a1c4-6d0c4f1f6e52
      name: NVIDIA H200
      driver: 570.86.15
      memory_total: 143771
      memory_used: 130244
      memory_free: 12912
      mig: []
      processes:
        - {pid: 4711, name: "VLLM::Worker_TP0", user: vllm, memory_used: 130230}
in_the_way:
  description: What uses them and is not our own, in words.
  returned: always
  type: list
  elements: str
  sample: ["GPU 0: pid 812 (python3) uses 40210 MiB"]
error:
  description: Why nothing can be told though there is an C(nvidia-smi).
  returned: when that is so
  type: str
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import gpus, leftovers


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "home": {"type": "path"},
            "devices": {"type": "str"},
            "unused": {"type": "bool", "default": False},
            "allowed": {"type": "int", "default": 1024},
        },
        supports_check_mode=True,
    )
    result: dict[str, Any] = {"gpus": [], "in_the_way": []}
    try:
        found = gpus.ask()
    except gpus.NoAnswerError as e:
        result["error"] = str(e)
    else:
        ours = leftovers.of(module.params["home"]) if module.params["home"] and found else []
        result["gpus"] = [
            {
                **dataclasses.asdict(gpu),
                "processes": [{**dataclasses.asdict(p), "user": leftovers.user(p.pid)} for p in gpu.processes],
            }
            for gpu in found
        ]
        result["in_the_way"] = gpus.in_the_way(
            gpus.seen(found, module.params["devices"]), ours, module.params["allowed"]
        )
    hindrance = result.get("error") or "; ".join(result["in_the_way"])
    if hindrance and module.params["unused"]:
        module.fail_json(
            msg=f"{hindrance}. Nothing was touched. End that, or give the server other GPUs (CUDA_VISIBLE_DEVICES).",
            **result,
        )
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

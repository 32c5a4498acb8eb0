#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_info
short_description: Find the vLLM servers of a host, however they were started
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Finds every API server among the processes of the host, those in containers included, and tells how it was started, by whom, with
    which arguments, and what keeps it. It needs no tool of any container runtime.
  - Secrets in arguments and environments are masked.
  - It looks, and changes nothing. What the connection's user may not see is told in C(hidden), so use C(become) to see all.
extends_documentation_fragment:
  - llmops.vllm.read_only
seealso:
  - module: llmops.vllm.vllm_doctor
  - module: llmops.vllm.vllm_instance_info
"""

EXAMPLES = r"""
- name: What serves here?
  llmops.vllm.vllm_info:
  become: true
  register: found

- name: Show the models
  ansible.builtin.debug:
    msg: "{{ found.servers | map(attribute='model') | join(', ') }}"
"""

RETURN = r"""
servers:
  description: The servers, by pid.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The process of the API server.
      type: int
    argv:
      description: Its command line.
      type: list
      elements: str
    model:
      description: The target, as it was named to the server.
      type: str
    flags:
      description: The arguments by their long names.
      type: dict
    environment:
      description: Those variables that steer vLLM and its libraries. Null where they may not be read.
      type: dict
    cwd:
      description: Its working directory.
      type: str
    user:
      description: Whose process it is.
      type: str
    uptime:
      description: Seconds since it was started.
      type: int
    parent:
      description: The process that started it.
      type: str
    keeper:
      description: What keeps it, a systemd unit, a container, tmux, nohup, or nothing.
      type: str
    unit:
      description: The systemd unit that it runs in, empty without one.
      type: str
    log:
      description: The file that it writes its output to, or what else is there.
      type: str
    listens:
      description: The TCP ports that the process listens on.
      type: list
      elements: int
    host:
      description: The address that it was told to listen on.
      type: str
    port:
      description: The port of its API.
      type: int
    python:
      description: The Python that runs it.
      type: str
    target:
      description: The directory of the target as the server sees it, a name on the hub looked up in the cache of its user. Empty where there is
        none.
      type: str
    drafter:
      description: The directory of the drafter likewise.
      type: str
    build:
      description: The vLLM that lies in its venv, with C(version), C(commit) as far as its files tell, C(method) by which it was installed (V(index),
        V(wheel), V(git), V(source) or V(editable)) and C(device). Null where that can't be known.
      type: dict
    workers:
      description: Its other processes, by pid, with their names.
      type: dict
    hidden:
      description: What this user may not see of it.
      type: list
      elements: str
    placement:
      description: Where its parts run.
      type: dict
      contains:
        visible:
          description: What its environment says of the GPUs that it may use, as C(CUDA_VISIBLE_DEVICES) and C(NVIDIA_VISIBLE_DEVICES).
          type: dict
        gpus:
          description: The GPUs that its processes use, as nvidia-smi tells, each with C(index), C(uuid), C(name) and C(memory_used) in MiB. Null
            where that can't be known.
          type: list
          elements: dict
        tensor_parallel_size:
          description: What it was told, 1 if nothing. Likewise C(pipeline_parallel_size), C(data_parallel_size) and C(nnodes).
          type: int
        node_rank:
          description: Which of several hosts it is. Null where it was started for one host.
          type: int
        data_parallel_rank:
          description: Which of the data-parallel parts it is, or the first of those that it has. Null where that was not said.
          type: int
        head:
          description: The address where the ranks meet, empty where none was said.
          type: str
        backend:
          description: What it was told of how its workers are started, as V(mp) or V(ray).
          type: str
        addresses:
          description: What its environment says of the network between its parts, as C(VLLM_HOST_IP) and C(RAY_ADDRESS).
          type: dict
        peers:
          description: Of a launch over several hosts, the addresses that its processes are connected with, but for its clients'.
          type: list
          elements: str
        unknown:
          description: What of all this can't be known, and why.
          type: list
          elements: str
orphans:
  description: Engines and workers whose server is gone, in words.
  returned: always
  type: list
  elements: str
  sample: ["pid 4711 (VLLM::EngineCore), of alice, on GPU 0 with 130230 MiB"]
unread:
  description: Processes that look like a server and can't be read, in words.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import examination, servers


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found, orphans, unread = servers.find()
    module.exit_json(
        changed=False, servers=[examination.describe(server) for server in found], orphans=orphans, unread=unread
    )


if __name__ == "__main__":
    main()

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
    workers:
      description: Its other processes, by pid, with their names.
      type: dict
    hidden:
      description: What this user may not see of it.
      type: list
      elements: str
orphans:
  description: Engines and workers whose server is gone, in words.
  returned: always
  type: list
  elements: str
  sample: ["pid 4711 (VLLM::EngineCore), of alice"]
unread:
  description: Processes that look like a server and can't be read, in words.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import servers


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found, orphans, unread = servers.find()
    module.exit_json(changed=False, servers=[server.public() for server in found], orphans=orphans, unread=unread)


if __name__ == "__main__":
    main()

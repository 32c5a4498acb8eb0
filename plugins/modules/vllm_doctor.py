#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_doctor
short_description: Judge every vLLM server of a host without touching it
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Finds the servers as M(llmops.vllm.vllm_info) does, and judges of each the drafter's C(config.json) against its weights and the target,
    the build, the known faults of its version, its arguments, the log of its last launch, its counters since then, its process, and who else
    may use it.
  - It reads files and C(/proc), asks systemd about units and C(nvidia-smi) about GPUs, and asks each server for C(/metrics) and C(/version).
    It asks for no token unless O(probe) is set.
  - Files and addresses of a container are looked at from within it, which needs root on the host.
  - What can't be looked at is a finding of its own, of the check V(sight), and everything else is judged all the same.
options:
  probe:
    description:
      - Whether to send each server that answers a few real requests, one after the other, and to judge what its engine counts meanwhile. That
        is a load, if a small one.
      - The server's own key is used where it may be read, and never shown. In check mode nothing is sent.
    type: bool
    default: false
  probe_requests:
    description: How many requests each server gets, from 1 to 32, for 128 tokens at most.
    type: int
    default: 4
  probe_timeout:
    description: Seconds after which the probe of a server is given up, from 5 to 600.
    type: float
    default: 60
  probe_prompts:
    description: What is asked, as it stands. By default English prompts of code, maths and prose, each made unlike any before.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing, and in check mode it sends no probe either.
seealso:
  - module: llmops.vllm.vllm_info
  - module: llmops.vllm.acceptance_probe
extends_documentation_fragment:
  - llmops.vllm.read_only
"""

EXAMPLES = r"""
- name: What is wrong here?
  llmops.vllm.vllm_doctor:
  become: true
  register: doctor

- name: What is wrong, and what is its drafter worth just now?
  llmops.vllm.vllm_doctor:
    probe: true
  become: true
  register: probed

- name: Stop where something is
  ansible.builtin.assert:
    that: doctor.health != 'error'
    fail_msg: "{{ doctor.servers | map(attribute='findings') | flatten | map(attribute='what') | join(' ') }}"
"""

RETURN = r"""
health:
  description: The severity of the worst finding on the host, V(error), V(warning), or V(ok).
  returned: always
  type: str
servers:
  description:
    - The servers, each with all that M(llmops.vllm.vllm_info) tells of it. RV(servers[].findings) come with the worst first, and among those that
      are alike, causes before symptoms.
  returned: always
  type: list
  elements: dict
  contains:
    health:
      description: The severity of its worst finding.
      type: str
    findings:
      description: What is wrong.
      type: list
      elements: dict
      contains:
        check:
          description: Which judge says so, V(process), V(drafter), V(build), V(versions), V(arguments), V(log), V(probe), V(counters), V(safety),
            V(sight).
          type: str
        severity:
          description: V(error) for what costs most of what the drafter gains, or the server; V(warning) for what may; V(note) else.
          type: str
        what:
          description: What is wrong, in a sentence.
          type: str
        evidence:
          description: Where that was seen.
          type: str
        remedy:
          description: What to do.
          type: str
    target:
      description: The directory of the target as the server sees it, empty where there is none.
      type: str
    drafter:
      description: The directory of the drafter likewise.
      type: str
    version:
      description: The version of vLLM that runs.
      type: str
    build:
      description: The vLLM that lies in its venv, as M(llmops.vllm.vllm_info) tells it.
      type: dict
    digests:
      description: SHA-256 of the C(config.json) of the target and the drafter.
      type: dict
    acceptance_length:
      description: Of all drafts since its start, null where there were none.
      type: float
    answers:
      description: Whether it answers.
      type: bool
    probe:
      description:
        - What the probe found, null without O(probe). Its C(verdict), and where it was measured C(acceptance_length), C(tokens_per_second) and the
          other figures of M(llmops.vllm.acceptance_probe).
      type: dict
findings:
  description: What is wrong on the host besides, of the same kind.
  returned: always
  type: list
  elements: dict
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import examination, servers
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import Finding, worst
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.probing import Asked


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "probe": {"type": "bool", "default": False},
            "probe_requests": {"type": "int", "default": 4},
            "probe_timeout": {"type": "float", "default": 60},
            "probe_prompts": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    p = module.params
    asked = Asked(p["probe_requests"], p["probe_timeout"], p["probe_prompts"]) if p["probe"] else None
    if asked and asked.refused():
        module.fail_json(msg=asked.refused())
    if asked and module.check_mode:
        module.warn("No server was probed, as this is check mode.")
        asked = None
    found, orphans, unread = servers.find()
    told = [examination.examine(server, asked) for server in found]
    beside = examination.of_the_host(orphans, unread)
    everything = [*beside, *(Finding(**finding) for server in told for finding in server["findings"])]
    module.exit_json(
        changed=False,
        health=worst(everything),
        servers=told,
        findings=[dataclasses.asdict(finding) for finding in beside],
    )


if __name__ == "__main__":
    main()

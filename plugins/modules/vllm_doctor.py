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
  - It reads files and C(/proc), asks systemd about units, and asks each server for C(/metrics) and C(/version). It never asks for a token.
  - Files and addresses of a container are looked at from within it, which needs root on the host.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing.
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
          description: Which judge says so, V(process), V(drafter), V(build), V(versions), V(arguments), V(log), V(counters), V(safety), V(sight).
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
    digests:
      description: SHA-256 of the C(config.json) of the target and the drafter.
      type: dict
    acceptance_length:
      description: Of all drafts since its start, null where there were none.
      type: float
    answers:
      description: Whether it answers.
      type: bool
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


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found, orphans, unread = servers.find()
    told = [examination.examine(server) for server in found]
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

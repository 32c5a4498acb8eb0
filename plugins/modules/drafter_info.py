#!/usr/bin/python
# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drafter_info
short_description: Judge the config of a DFlash drafter
version_added: 0.1.0
description:
  - Gives the judgement of M(llmops.vllm.drafter_config) and writes nothing.
  - It does not fail for what it finds, only where there is no drafter to judge.
author:
  - The llmops.vllm authors (@llmops)
extends_documentation_fragment:
  - llmops.vllm.drafter
attributes:
  check_mode:
    support: full
    description: It never writes.
  diff_mode:
    support: none
    description: It never changes anything.
  idempotent:
    support: full
    description: It never changes anything.
"""

EXAMPLES = r"""
- name: Judge a drafter
  llmops.vllm.drafter_info:
    path: /srv/models/my-drafter
    target: /srv/models/my-target
    engine: {version: 0.32.0, runner: v2}
  register: drafter

- name: Stop where it isn't right
  ansible.builtin.assert:
    that: drafter.ok
    fail_msg: "{{ drafter.findings | selectattr('severity', 'eq', 'error') | map(attribute='key') | join(', ') }}"
"""

RETURN = r"""
ok:
  description: Whether no finding is an error.
  returned: success
  type: bool
config:
  description: The config as found.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking


def main() -> None:
    module = AnsibleModule(argument_spec=asking.ARGUMENTS, supports_check_mode=True)
    try:
        judged = asking.judge(module.params, mended=False)
    except asking.CannotJudgeError as e:
        module.fail_json(msg=str(e))
    ok = all(finding.severity != "error" for finding in judged.findings)
    module.exit_json(changed=False, ok=ok, **judged.public())


if __name__ == "__main__":
    main()

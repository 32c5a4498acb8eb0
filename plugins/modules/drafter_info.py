#!/usr/bin/python
# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drafter_info
short_description: Judge the config of a DFlash drafter
version_added: "0.1.0"
description:
  - Judges the config.json of a DFlash drafter as M(llmops.vllm.drafter_config) does, and writes nothing.
  - It does not fail for what it finds, only where there is no drafter to judge.
author:
  - The llmops.vllm authors (@llmops)
extends_documentation_fragment:
  - llmops.vllm.drafter
  - llmops.vllm.read_only
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
path:
  description: The drafter's directory.
  returned: success
  type: str
config:
  description: The config as found.
  returned: success
  type: dict
findings:
  description: What is wrong with the file as found, and what is to be known of the mended one.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The key of C(config.json), dotted. C(config.json) itself for what concerns the whole file.
      type: str
    found:
      description: Its value, null where the key is absent.
      type: raw
    wanted:
      description: The right value, null where nothing says it.
      type: raw
    severity:
      description: V(error) for what ruins the drafter, V(warning) for what may, V(note) for what is to be known.
      type: str
    why:
      description: What is wrong with it, and what would settle it where that isn't known.
      type: str
    evidence:
      description: Who says so, a tensor, a file, or what was given to the task.
      type: str
  sample:
    - key: dflash_config.mask_token_id
      found: 248064
      wanted: 248070
      severity: error
      why: the right value is another
      evidence: your values
effective:
  description: What transformers holds after loading the file, null where it refuses the file.
  returned: success
  type: dict
format:
  description: The format of the config, V(zlab-legacy), V(zlab-nested), V(dflash2), V(mimo) (ModelOpt, too) or V(speculators).
  returned: success
  type: str
num_speculative_tokens:
  description: How many tokens a block drafts, the value for C(--speculative-config). Null where no block size is known.
  returned: success
  type: int
  sample: 15
expected_aux_layers:
  description: The auxiliary layers as the engine logs them, which proves that it reads the ids as they are meant.
  returned: success
  type: list
  elements: int
  sample: [2, 17, 32, 47, 62]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError


def main() -> None:
    module = AnsibleModule(argument_spec=asking.ARGUMENTS, supports_check_mode=True)
    try:
        judged = asking.judge(module.params, mended=False)
    except RefusedError as e:
        module.fail_json(msg=f"{e}.")
    ok = all(finding.severity != "error" for finding in judged.findings)
    module.exit_json(changed=False, ok=ok, **judged.public())


if __name__ == "__main__":
    main()

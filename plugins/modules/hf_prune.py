#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_prune
short_description: Remove the models that no release names
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Looks through the snapshots that M(llmops.vllm.hf_snapshot) laid down, and removes those that no release of any instance of the host
    names, neither as its target nor by the overlay of its drafter. What was left of fetches that nobody finished goes too.
  - What is being fetched or served to other hosts stays, and so does everything while a release can't be read.
options:
  home:
    description: The directory that everything of the collection on the host is under.
    type: path
    required: true
  older:
    description: Seconds for which a snapshot stays in any case, as it may be about to be served.
    type: int
    default: 86400
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - Says what would be removed.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
"""

EXAMPLES = r"""
- name: Remove the models that no release names
  llmops.vllm.hf_prune:
    home: /opt/vllm
"""

RETURN = r"""
removed:
  description: The snapshots that were removed, or would be, with the C(bytes) that each took.
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/opt/vllm/models/Qwen--Qwen3.6-27B/6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d", "bytes": 54000000000}]
bytes:
  description: How many bytes are free again.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, pruning


def main() -> None:
    module = AnsibleModule(
        argument_spec={"home": {"type": "path", "required": True}, "older": {"type": "int", "default": 86400}},
        supports_check_mode=True,
    )
    p = module.params
    try:
        gone = [one for one in pruning.surplus(p["home"], p["older"]) if module.check_mode or pruning.remove(one)]
    except pruning.UnknownNeedsError as e:
        module.fail_json(
            msg=f"Nothing was removed, since it is not known what is needed: {e}. Mend that file, or remove its release."
        )
    except OSError as e:
        module.fail_json(msg=errors.sentence(str(errors.of_system(e, p["home"]))))
    rows = [{"path": one.path, "bytes": one.size} for one in gone]
    before = "".join(f"{one.path} ({errors.amount(one.size)})\n" for one in gone)
    result: dict[str, Any] = {"removed": rows, "bytes": sum(one.size for one in gone)}
    module.exit_json(changed=bool(gone), diff={"before": before, "after": ""}, **result)


if __name__ == "__main__":
    main()

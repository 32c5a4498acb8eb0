#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_build_info
short_description: Say which vLLM a venv holds and whether it is whole
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Looks at the files of a venv and runs nothing, so it takes no time worth mentioning.
options:
  venv:
    description: The venv's directory.
    type: path
    required: true
  stamp:
    description:
      - The stamp that the installer writes last, after it has proven the build.
      - Where given, a build without it is not complete, however good it looks.
    type: path
attributes:
  check_mode:
    support: full
    description: Changes nothing.
  diff_mode:
    support: none
    description: Changes nothing.
  idempotent:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: See what there is
  llmops.vllm.vllm_build_info:
    venv: /opt/vllm/builds/vllm-0.32.0-1f0c2e9a/venv
  register: build
"""

RETURN = r"""
complete:
  description: Whether the venv holds a whole vLLM.
  returned: success
  type: bool
venv:
  description: The venv's directory.
  returned: success
  type: str
version:
  description: The version of vLLM that is installed, null if there is none.
  returned: success
  type: str
findings:
  description: What speaks against the build, a sentence each.
  returned: success
  type: list
  elements: str
"""

import glob
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def installed_version(venv: str) -> str | None:
    """The version in the metadata of the distribution vllm, which is the name that ``vllm serve`` itself looks for."""
    for path in glob.glob(os.path.join(glob.escape(venv), "lib/python3*/site-packages/vllm-*.dist-info/METADATA")):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if line.startswith("Version: "):
                    return line.split(":", 1)[1].strip()
    return None


def stamped_version(stamp: str) -> str | None:
    try:
        with open(stamp, encoding="utf-8") as f:
            return str(json.load(f)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def judge(venv: str, stamp: str | None) -> tuple[str | None, list[str]]:
    """The version of a venv's vLLM, and what speaks against it."""
    version = installed_version(venv)
    findings = []
    if not os.access(os.path.join(venv, "bin", "python"), os.X_OK):
        findings.append(f"There is no usable Python in the venv {venv}.")
    if not os.access(os.path.join(venv, "bin", "vllm"), os.X_OK):
        findings.append(f"There is no program {venv}/bin/vllm.")
    if version is None:
        findings.append(f"No vLLM is installed in {venv}.")
    if stamp and stamped_version(stamp) is None:
        findings.append(f"The stamp {stamp} is missing, so the installation was not finished.")
    return version, findings


def main() -> None:
    module = AnsibleModule(
        argument_spec={"venv": {"type": "path", "required": True}, "stamp": {"type": "path"}},
        supports_check_mode=True,
    )
    venv: str = module.params["venv"]
    version, findings = judge(venv, module.params["stamp"])
    result: dict[str, Any] = {"complete": not findings, "venv": venv, "version": version, "findings": findings}
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

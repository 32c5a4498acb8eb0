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
  - Looks at a venv and says which vLLM is in it, by which commit and for which device, what of it is missing or damaged, and which
    named changes it has.
  - No single sign tells a whole installation from one that was interrupted, so many are looked at, and each has a finding of its
    own.
options:
  venv:
    description: The venv's directory.
    type: path
    required: true
  proof:
    description:
      - V(full) compares the content of every file with what was installed, compares the sources with those of the commit where the
        repository is known, and starts the program once with its kernels loaded. It takes some ten seconds.
      - V(quick) looks at names, sizes and marks only, and runs nothing of the venv.
    type: str
    choices: [quick, full]
    default: full
  stamp:
    description:
      - The stamp that the role C(vllm_build) writes last, after it has proven the build.
      - Where given, a build without it is not complete, however good it looks; nor is one that was changed since.
    type: path
  commit:
    description: The commit that it should be built from, all 40 digits.
    type: str
  repository:
    description:
      - A git repository on the host with the history of that commit. The stamp names one, where there is a stamp.
      - A shallow clone answers what it can; what it can't tell stays unknown.
    type: path
  patches:
    description: Changes to look for, besides the three that the collection knows.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What to call it.
        type: str
        required: true
      commit:
        description: Its commit. It is there if the history of the build's commit holds it.
        type: str
      files:
        description: Files that it changes, as seen from the directory that holds the package V(vllm).
        type: list
        elements: str
        default: []
      pattern:
        description: A regular expression for the text that it brings into one of these O(patches[].files).
        type: str
      since:
        description: The first release that has it.
        type: str
      pull:
        description: The number of the pull request whose head has it.
        type: int
extends_documentation_fragment:
  - llmops.vllm.read_only
seealso:
  - module: llmops.vllm.drafter_config
"""

EXAMPLES = r"""
- name: Is the engine of this host whole?
  llmops.vllm.vllm_build_info:
    venv: /opt/vllm/builds/a8062413a5c0-1f0c2e9a/venv
  register: build

- name: Refuse one that doesn't shift the layer ids, or of which that isn't known
  ansible.builtin.assert:
    that: build.patches['layer-id-offset'] == 'yes'

- name: Does it have a fix of our own?
  llmops.vllm.vllm_build_info:
    venv: /opt/vllm/builds/a8062413a5c0-1f0c2e9a/venv
    stamp: /opt/vllm/builds/a8062413a5c0-1f0c2e9a/build.json
    proof: quick
    patches:
      - name: ours
        commit: a8062413a5c08ff7f3dd61328441023b6303fba5
"""

RETURN = r"""
complete:
  description: Whether nothing speaks against it.
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
  sample: 0.32.1.dev2+ga8062413a.cpu
commit:
  description: The commit it was built from, all 40 digits; null where that can't be known.
  returned: success
  type: str
  sample: a8062413a5c08ff7f3dd61328441023b6303fba5
device:
  description: What it is for, as V(cuda), V(cpu), V(rocm), V(xpu), V(tpu) or V(empty); null where that can't be known.
  returned: success
  type: str
  sample: cuda
kernels:
  description: V(precompiled) or V(compile), as the stamp says; null without one.
  returned: success
  type: str
method:
  description:
    - How it was installed. V(index), V(wheel) (from a file or URL), V(git), V(source) (a source tree) or V(editable); null if there is nothing.
  returned: success
  type: str
  sample: source
installer:
  description: Who installed it, as V(pip) or V(uv); null where that can't be known.
  returned: success
  type: str
  sample: pip
patches:
  description: Which of the named changes it has, as V(yes), V(no) or V(unknown).
  returned: success
  type: dict
  sample: {"layer-id-offset": "yes", "drafter-sliding-window": "yes", "eagle-cache-drop": "unknown"}
evidence:
  description: By what that is known, for each of them.
  returned: success
  type: dict
  sample: {"layer-id-offset": "its text is installed"}
findings:
  description: What speaks against the build. V(key) is the check, V(why) a sentence, V(evidence) the file to look at.
  returned: success
  type: list
  elements: dict
  sample: [{"key": "leftovers", "why": "An installer was interrupted and left ~llm behind.", "evidence": "/opt/v/lib/python3.12/site-packages"}]
fingerprint:
  description: A digest of what is installed.
  returned: success
  type: str
"""

import dataclasses
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._build import git, installed, proof
from ansible_collections.llmops.vllm.plugins.module_utils._build.patches import CATALOGUE, Origin, Patch, answer
from ansible_collections.llmops.vllm.plugins.module_utils._host import files


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "venv": {"type": "path", "required": True},
            "proof": {"type": "str", "choices": ["quick", "full"], "default": "full"},
            "stamp": {"type": "path"},
            "commit": {"type": "str"},
            "repository": {"type": "path"},
            "patches": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "commit": {"type": "str"},
                    "files": {"type": "list", "elements": "str", "default": []},
                    "pattern": {"type": "str"},
                    "since": {"type": "str"},
                    "pull": {"type": "int"},
                },
            },
        },
        supports_check_mode=True,
    )
    params: dict[str, Any] = module.params
    try:
        wanted_patches = [*CATALOGUE, *(patch(told) for told in params["patches"])]
    except ValueError as e:
        module.fail_json(msg=str(e))
    if params["commit"] and not git.FULL.fullmatch(params["commit"]):
        module.fail_json(msg=f"commit: {params['commit']!r} is not a commit: it has to be all 40 digits.")
    stamp = files.read_json(params["stamp"]) if params["stamp"] else {}
    for warning in stamp.get("warnings") or []:
        module.warn(warning)
    module.exit_json(changed=False, **report(params, stamp, wanted_patches))


def report(params: dict[str, Any], stamp: dict[str, Any], wanted_patches: list[Patch]) -> dict[str, Any]:
    found = installed.look(params["venv"])
    repository = params["repository"] or stamp.get("repository") or (found.root if found.editable else "")
    wanted = proof.Wanted(params["commit"] or stamp.get("commit") or "", repository, params["stamp"] or "")
    findings = (proof.full if params["proof"] == "full" else proof.quick)(found, wanted)
    commit = whole_commit(found, stamp, repository)
    answers = {
        p.name: answer(p, found, Origin(repository, commit or "", stamp.get("ref") or "")) for p in wanted_patches
    }
    return {
        "complete": not findings,
        "venv": found.venv,
        "version": found.version,
        "commit": commit,
        "device": found.device,
        "kernels": stamp.get("kernels"),
        "method": found.method,
        "installer": found.whole[0].installer or None if found.whole else None,
        "patches": {name: a.has for name, a in answers.items()},
        "evidence": {name: a.by for name, a in answers.items()},
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "fingerprint": proof.fingerprint(found),
    }


def whole_commit(found: installed.Installed, stamp: dict[str, Any], repository: str) -> str | None:
    """All 40 digits, from whoever knows them: the stamp, the tree it runs from, its metadata, or the repository."""
    if stamp.get("commit"):
        return str(stamp["commit"])
    if found.editable:
        return git.commit_of(found.root, "HEAD")
    said = list(found.says().values())
    for commit in said:
        if git.FULL.fullmatch(commit):
            return commit
    return git.commit_of(repository, said[0]) if said and repository else None


def patch(told: dict[str, Any]) -> Patch:
    """A patch as a user names it. Raises ValueError."""
    where = f"patches: {told['name']}"
    if told["commit"] and not git.FULL.fullmatch(told["commit"]):
        raise ValueError(f"{where}: {told['commit']!r} is not a commit: it has to be all 40 digits.")
    if told["since"] and not re.fullmatch(r"\d+(\.\d+)*", told["since"]):
        raise ValueError(f"{where}: since has to be a release, as 0.26, not {told['since']!r}.")
    if bool(told["pattern"]) != bool(told["files"]):
        raise ValueError(f"{where}: pattern and files go together: a text, and where it may stand.")
    if not any(told[name] for name in ("commit", "pattern", "since", "pull")):
        raise ValueError(
            f"{where}: give it a commit, a pattern, a release or a pull request, by one of which it is known."
        )
    try:
        re.compile(told["pattern"] or "")
    except re.error as e:
        raise ValueError(f"{where}: {told['pattern']!r} is not a regular expression: {e}.") from e
    since = tuple(int(n) for n in told["since"].split(".")) if told["since"] else ()
    return Patch(
        told["name"], told["commit"] or "", tuple(told["files"]), told["pattern"] or "", since, told["pull"] or 0
    )


if __name__ == "__main__":
    main()

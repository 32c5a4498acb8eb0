#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_release
short_description: Write down what is to be served, as a release
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Writes down what is to be served as a release, and tries it before. The role P(llmops.vllm.vllm_serve#role) uses it.
  - A release is a directory C(releases/<id>) of an instance, with the launch script, its environment in a file that only the server's user
    can read, and C(release.json), which says what it is made of. Its id is a digest of all that, so that the same release has the same
    name on every host.
  - A new release appears whole. Nothing that runs is touched, and no link is moved.
  - Before that it is tried, as the server's user, in some seconds. The build that is to run it is asked whether it takes the arguments,
    as only its own parser knows its flags and their types, and the models have to be readable. What is there was tried when it came.
options:
  instance:
    description: The directory of the instance. It and the server's cache in it are made when missing.
    type: path
    required: true
  content:
    description:
      - What the release is made of, as it is to be told. No secrets.
      - C(argv), the command line of the server, C(ray), that of a Ray which is started before, if any, and C(path) of C(target) and
        C(drafter) are what is tried.
    type: dict
    required: true
  launcher:
    description: The text of the launch script.
    type: str
    required: true
  environment:
    description:
      - The environment of the server, as a JSON object. A null takes a variable away. Numbers become text.
      - It is one text so that all of it can be hidden. What becomes known of it is a digest that is slow to compute.
    type: str
    required: true
  user:
    description: The user that the server will run as.
    type: str
    required: true
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - What speaks against a release is only a warning, since earlier tasks may be meant to mend it.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
    details:
      - Shows C(release.json) of the current release and of this one. Of the environment only the digest is in there.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
"""

EXAMPLES = r"""
- name: Write the release, with the launch script of the role
  llmops.vllm.vllm_release:
    instance: /opt/vllm/instances/default
    content:
      argv: [/opt/vllm/builds/0.32.0/venv/bin/vllm, serve, /srv/models/Qwen3.6-27B]
      target: {path: /srv/models/Qwen3.6-27B}
      url: http://127.0.0.1:8000
    launcher: "{{ lookup('ansible.builtin.template', 'launch.py.j2') }}"
    environment: "{{ {'HF_HUB_OFFLINE': '1', 'VLLM_API_KEY': key} | to_json }}"
    user: vllm
"""

RETURN = r"""
id:
  description: The name of the release.
  returned: success
  type: str
  sample: 3f0c2a91b7de
path:
  description: Its directory.
  returned: success
  type: str
content:
  description: What its C(release.json) holds.
  returned: success
  type: dict
current:
  description: What C(release.json) of the current release holds, empty if there is none.
  returned: success
  type: dict
current_proven:
  description: Whether the current release was measured, and passed.
  returned: success
  type: bool
current_measured:
  description: What M(llmops.vllm.acceptance_probe) returned of the current release, empty if it was not measured.
  returned: success
  type: dict
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._engine import trial
from ansible_collections.llmops.vllm.plugins.module_utils._host import refusals, release


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "content": {"type": "dict", "required": True},
            "launcher": {"type": "str", "required": True},
            "environment": {"type": "str", "required": True, "no_log": True},
            "user": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    os.umask(0o022)  # the server's user has to enter all of these directories, whatever root's habit is
    try:
        wanted = release.Release(p["content"], p["launcher"], release.environment(p["environment"]))
        result = write(module, p["instance"], wanted, p["user"])
    except release.ReleaseError as e:
        module.fail_json(msg=f"{e} Nothing was written.")
    except OSError as e:
        module.fail_json(msg=f"The release could not be written. {refusals.told(e, p['instance'])}")
    module.exit_json(**result)


def write(module: AnsibleModule, instance: str, wanted: release.Release, user: str) -> dict[str, Any]:
    release.refuse_what_is_no_link(instance)
    described = wanted.described
    path = os.path.join(instance, "releases", described["id"])
    try:
        ids = release.owner(user)
        known = True
    except release.ReleaseError:
        if not module.check_mode:
            raise
        ids, known = None, False  # the user may be one that an earlier task would have made
    changed = bool(release.differing(path, wanted, ids))
    current, proven, measured = release.current(instance)
    if not module.check_mode:
        release.make_cache(instance, user, ids)
    if known and not os.path.isdir(path):
        try_it(module, wanted, user if ids else None)
    if not module.check_mode:
        release.write(instance, wanted, ids)
    result = {
        "changed": changed,
        "id": described["id"],
        "path": path,
        "content": described,
        "current": current,
        "current_proven": proven,
        "current_measured": measured,
    }
    if changed:
        result["diff"] = {"before": _text(current), "after": _text(described)}
    return result


def try_it(module: AnsibleModule, wanted: release.Release, user: str | None) -> None:
    content = wanted.content
    models = [content[model]["path"] for model in ("target", "drafter") if "path" in content.get(model, {})]
    commands = [content[name] for name in ("argv", "ray") if content.get(name)]
    refused = next(filter(None, (trial.hindrance(c, models, wanted.environment, user) for c in commands)), "")
    if refused and module.check_mode:
        module.warn(f"As things are, it would not be written. {refused}")
    elif refused:
        raise release.ReleaseError(refused)


def _text(data: dict[str, Any]) -> str:
    return f"{json.dumps(data, indent=4, sort_keys=True, ensure_ascii=False)}\n" if data else ""


if __name__ == "__main__":
    main()

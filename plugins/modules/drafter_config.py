#!/usr/bin/python
# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drafter_config
short_description: Prove and mend the config of a DFlash drafter
version_added: 0.1.0
description:
  - Judges the C(config.json) of a DFlash drafter against its weights, the target, and what you say is right, and writes a mended one.
  - With a wrong config nothing crashes. The server answers exactly, and the drafter proposes tokens that are never accepted.
  - Nothing is ever guessed. A value that is wrong with nothing to say the right one fails the task, with what would settle it.
  - The evidence, strongest first, is the header of the weights (no tensor is read), the target's config and tokenizer, O(values),
    O(reference), and a catalogue of published drafters. What you say against the weights or the target is an error that shows both sides.
  - See M(llmops.vllm.drafter_info) for the same judgement without writing.
author:
  - The llmops.vllm authors (@llmops)
extends_documentation_fragment:
  - llmops.vllm.drafter
attributes:
  check_mode:
    support: full
    description: Says what it would write, without writing it.
  diff_mode:
    support: full
    description: Shows the C(config.json) before and after, and the links of the overlay.
  idempotent:
    support: full
    description: A second run changes nothing.
options:
  dest:
    description:
      - The overlay to write, a directory with links to the drafter's files and a real, mended C(config.json). Serve this one.
      - The text V({digest}) in it stands for the first 12 digits of RV(digest), so that equal overlays have equal names on every host.
      - An overlay that is there and differs is repaired. Anything else that is there is refused and left alone.
    type: path
  in_place:
    description:
      - Mend the C(config.json) itself instead. Refused where that is a link or lies in the cache of a hub, since the next download would
        undo it and other revisions may share it.
    type: bool
    default: false
  backup:
    description: Keep the old C(config.json) beside the new one. Only with O(in_place).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Mend the drafter into an overlay
  llmops.vllm.drafter_config:
    path: /opt/vllm/models/z-lab--Qwen3.6-27B-DFlash/0123456789abcdef0123456789abcdef01234567
    target: /opt/vllm/models/Qwen--Qwen3.6-27B/89abcdef0123456789abcdef0123456789abcdef
    dest: /opt/vllm/overlays/Qwen3.6-27B-DFlash-{digest}
  register: drafter

- name: Mend a drafter of your own, whose right values you know
  llmops.vllm.drafter_config:
    path: /srv/models/my-drafter
    dest: /opt/vllm/overlays/my-drafter-{digest}
    values:
      dflash_config:
        mask_token_id: 3
        target_layer_ids: [1, 3, 5]
      layer_types: [sliding_attention, sliding_attention, sliding_attention]
      sliding_window: 24

- name: Mend a plain directory in place, after a config that is known to be right
  llmops.vllm.drafter_config:
    path: /srv/models/my-drafter
    in_place: true
    backup: true
    reference: /srv/known-good/config.json
"""

RETURN = r"""
path:
  description: The directory to serve.
  returned: success
  type: str
  sample: /opt/vllm/overlays/Qwen3.6-27B-DFlash-0a1b2c3d4e5f
verified:
  description: Whether the file on disk was read back and is what was to be written. False where check mode wrote nothing.
  returned: success
  type: bool
digest:
  description: SHA-256 over the mended config, the headers of the weights, and the names and sizes of all files. Equal on every host.
  returned: success
  type: str
backup_file:
  description: Where the old C(config.json) was kept.
  returned: when O(backup=true) and the file changed
  type: str
config:
  description: The config as it is served, after the mend.
  returned: success
  type: dict
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking, drafter, jsontext, overlay
from ansible_collections.llmops.vllm.plugins.module_utils._host import files


def mended_text(found: drafter.Drafter, edits: dict[jsontext.Path, Any]) -> str:
    text = found.text
    for path, value in edits.items():
        text = jsontext.set_value(text, path, value)
    return text


def write_overlay(module: AnsibleModule, found: drafter.Drafter, config: bytes) -> dict[str, Any]:
    wanted = overlay.plan(found.directory, module.params["dest"], config, found.weights.digests)
    source = os.path.realpath(found.directory)
    if (os.path.realpath(wanted.path) + os.sep).startswith(source + os.sep):
        module.fail_json(
            msg=f"The overlay {wanted.path} would lie inside the drafter that it links to; choose another dest."
        )
    amiss = overlay.inspect(wanted)
    before = overlay.read(os.path.join(wanted.path, "config.json"))
    if amiss and not module.check_mode:
        parent = os.path.dirname(wanted.path)
        os.makedirs(parent, exist_ok=True)
        with files.locked(parent):
            if overlay.inspect(wanted):
                overlay.write(wanted)
            amiss_after = overlay.inspect(wanted)
        if amiss_after:
            module.fail_json(msg=f"The overlay {wanted.path} was written, but read back {amiss_after[0]}.")
    diff = [
        {
            "before_header": found.path if before is None else f"{wanted.path}/config.json",
            "after_header": f"{wanted.path}/config.json",
            "before": found.text if before is None else before.decode("utf-8", "replace"),
            "after": config.decode("utf-8"),
        }
    ]
    return {
        "changed": bool(amiss),
        "path": wanted.path,
        "verified": not (amiss and module.check_mode),
        "diff": diff,
        "actions": amiss,
    }


def write_in_place(module: AnsibleModule, found: drafter.Drafter, config: bytes) -> dict[str, Any]:
    result: dict[str, Any] = {
        "path": found.directory,
        "verified": True,
        "changed": config != found.text.encode("utf-8"),
    }
    result["diff"] = [
        {
            "before_header": found.path,
            "after_header": found.path,
            "before": found.text,
            "after": config.decode("utf-8"),
        }
    ]
    if not result["changed"] or module.check_mode:
        result["verified"] = not result["changed"]
        return result
    with files.locked(found.directory):
        if overlay.read(found.path) != found.text.encode("utf-8"):
            module.fail_json(
                msg=f"{found.path} was changed by somebody else while it was judged. Nothing was written; run again."
            )
        if module.params["backup"]:
            result["backup_file"] = module.backup_local(found.path)
        files.write(found.path, config)
        if overlay.read(found.path) != config:
            module.fail_json(msg=f"{found.path} was written, but reads back differently.")
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            asking.ARGUMENTS,
            dest={"type": "path"},
            in_place={"type": "bool", "default": False},
            backup={"type": "bool", "default": False},
        ),
        supports_check_mode=True,
    )
    dest, in_place = module.params["dest"], module.params["in_place"]
    if bool(dest) == in_place:
        module.fail_json(msg="Say where to write: either dest, the overlay's directory, or in_place=true.")
    if module.params["backup"] and not in_place:
        module.fail_json(
            msg="backup goes with in_place=true: an overlay leaves the drafter's own config.json as it is."
        )
    try:
        found, verdict = asking.judge(module.params)
    except asking.REFUSALS as e:
        module.fail_json(msg=f"{e}.")
    result = asking.public(verdict)
    if verdict.remaining:
        module.fail_json(msg=asking.complaint(found, verdict), **result)
    reason = asking.not_in_place(found) if in_place else None
    if reason and verdict.edits:
        module.fail_json(msg=reason, **result)
    config = mended_text(found, verdict.edits).encode("utf-8")
    result["digest"] = overlay.digest(found.directory, config, found.weights.digests)
    try:
        result.update(write_in_place(module, found, config) if in_place else write_overlay(module, found, config))
    except overlay.ForeignError as e:
        module.fail_json(msg=f"{e}.", **result)
    except OSError as e:
        module.fail_json(
            msg=f"Writing failed, and the drafter is as before: {e.strerror}: {e.filename or dest}.", **result
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drafter_config
short_description: Prove and mend the config of a DFlash drafter
version_added: "0.1.0"
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
  description: The mended config, as it is served. The config as found where the task fails.
  returned: when there is a drafter to judge
  type: dict
findings:
  description: What is wrong with the file as found, and what is to be known of the mended one.
  returned: when there is a drafter to judge
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
  description: What transformers holds after loading the mended config, null where it refuses the file.
  returned: when there is a drafter to judge
  type: dict
format:
  description: The format of the config, V(zlab-legacy), V(zlab-nested), V(dflash2), V(mimo) (ModelOpt, too) or V(speculators).
  returned: when there is a drafter to judge
  type: str
num_speculative_tokens:
  description: How many tokens a block drafts, the value for C(--speculative-config). Null where no block size is known.
  returned: when there is a drafter to judge
  type: int
  sample: 15
expected_aux_layers:
  description: The auxiliary layers as the engine logs them, which proves that it reads the ids as they are meant.
  returned: when there is a drafter to judge
  type: list
  elements: int
  sample: [2, 17, 32, 47, 62]
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking, overlay
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, refusals


def difference(before: str, after: str, old: str, new: str) -> dict[str, str]:
    return {"before_header": before, "after_header": after, "before": old, "after": new}


def digest_of(judged: asking.Judgement, text: str) -> str:
    return overlay.digest(judged.drafter.directory, text.encode("utf-8"), judged.drafter.weights.digests)


def write_overlay(module: AnsibleModule, judged: asking.Judgement, text: str) -> dict[str, Any]:
    digest = digest_of(judged, text)
    wanted = overlay.plan(judged.drafter.directory, module.params["dest"], text.encode("utf-8"), digest)
    there = overlay.present(wanted)
    changed = there != wanted if module.check_mode else overlay.write(wanted)
    if not module.check_mode and overlay.present(wanted) != wanted:
        raise RefusedError(f"the overlay {wanted.path} was written, but reads back differently")
    name = os.path.join(wanted.path, "config.json")
    mend = difference(judged.drafter.path, name, judged.drafter.text, text)
    if there is not None:
        mend = difference(name, name, there.config.decode("utf-8", "replace"), text)
    links = difference(f"{wanted.path} (links)", f"{wanted.path} (links)", str(there or ""), str(wanted))
    return {
        "changed": changed,
        "diff": [mend, links],
        "digest": digest,
        "path": wanted.path,
        "verified": not (module.check_mode and changed),
    }


def write_in_place(module: AnsibleModule, judged: asking.Judgement, text: str) -> dict[str, Any]:
    name, old, new = judged.drafter.path, judged.drafter.text.encode("utf-8"), text.encode("utf-8")
    result: dict[str, Any] = {"changed": new != old, "digest": digest_of(judged, text)}
    result["diff"] = [difference(name, name, judged.drafter.text, text)]
    if result["changed"] and judged.drafter.fixed:
        raise RefusedError(f"{judged.drafter.fixed}; nothing was written. Write an overlay instead, with dest")
    if result["changed"] and not module.check_mode:
        with files.sole_writer(judged.drafter.directory):
            there = overlay.read(name)
            if there not in (old, new):
                raise RefusedError(f"{name} was changed by somebody else while it was judged; nothing was written")
            result["changed"] = there == old
            if result["changed"]:
                files.clear(name)
                if module.params["backup"]:
                    result["backup_file"] = f"{name}.{os.getpid()}.{time.strftime('%Y-%m-%d@%H:%M:%S~')}"
                    files.write(result["backup_file"], old, like=name)
                files.write(name, new)
            if overlay.read(name) != new:
                raise RefusedError(f"{name} was written, but reads back differently")
    result["verified"] = not (module.check_mode and result["changed"])
    return result


def main() -> None:
    os.umask(0o022)  # the server's user has to enter the overlay, whatever root's habit is
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
        module.fail_json(msg="Say where to write: either dest, for an overlay, or in_place=true.")
    if module.params["backup"] and not in_place:
        module.fail_json(msg="backup goes with in_place=true; an overlay leaves the drafter's own file as it is.")
    try:
        judged = asking.judge(module.params, mended=True)
    except RefusedError as e:
        module.fail_json(msg=f"{e}.")
    if judged.remaining:
        module.fail_json(msg=judged.complaint(), **judged.as_found())
    for finding in judged.lasting_warnings:
        module.warn(str(finding))
    try:
        text = judged.text()
        written = write_in_place(module, judged, text) if in_place else write_overlay(module, judged, text)
    except RefusedError as e:
        module.fail_json(msg=f"{e}.", **judged.as_found())
    except OSError as e:
        where = os.path.dirname(dest) if dest else judged.drafter.path
        module.fail_json(msg=f"{refusals.told(e, where)} The drafter is as it was.", **judged.as_found())
    module.exit_json(**{**judged.public(), **written})


if __name__ == "__main__":
    main()

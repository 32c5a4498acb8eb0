# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # What is asked of a drafter, the same for those who mend and those who only look.
    DOCUMENTATION = r"""
options:
  path:
    description:
      - The drafter, a directory with a C(config.json) and safetensors weights, or that C(config.json). A hub's snapshot, a plain directory
        or an overlay.
    type: path
    required: true
  values:
    description:
      - What you assert. Keys are those of C(config.json), nested or dotted (C(dflash_config.mask_token_id)).
      - A key may be named as any format names it. It goes where this drafter's format keeps it.
    type: dict
    default: {}
  reference:
    description: A C(config.json) that is known to be right, of any format, such as the published one of the same revision.
    type: path
  profile:
    description:
      - V(auto) looks the drafter up in the catalogue of published drafters, by the name of its directory (of the one above, where
        that is a revision), and believes an entry that its weights agree with. Only entries of high confidence mend, others are hints.
      - A name of the catalogue or of O(profiles) says which drafter it is. V(none) asks no catalogue.
    type: str
    default: auto
  profiles:
    description:
      - Entries of your own, by name. Each is a dictionary like O(values). They go before those of the catalogue.
    type: dict
    default: {}
  target:
    description: The target's directory. Its config and tokenizer are evidence.
    type: path
  engine:
    description: The vLLM that will load the drafter, to tell what it refuses or ignores.
    type: dict
    suboptions:
      version:
        description: Its version, such as V(0.32.0).
        type: str
      runner:
        description: Its model runner, where you know it.
        type: str
        choices: [v1, v2]
  python:
    description:
      - A Python that can import transformers. It is asked what the loader makes of the file, instead of predicting it.
    type: path
"""

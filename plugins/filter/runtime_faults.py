# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: runtime_faults
short_description: What the log of a launch says against it
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Holds what the engine logged of itself against what was to be launched. The layers of the target that it hands to the drafter have to be
    those that the drafter was trained on, and the version that runs has to be the build's.
  - An engine that names no layers has silently taken its defaults, so that is a fault as well.
  - The engine says all that when it starts, and its version first. So a server that was already up is judged too, unless its log has lost
    that beginning, as a journal may that was rotated.
options:
  _input:
    description:
      - The server, as the role P(llmops.vllm.vllm_serve#role) hands it on. C(launched), C(content) (its C(release.json)) and C(log) (what
        M(llmops.vllm.log_wait) returned) count.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse an engine that is not what was to be launched
  ansible.builtin.fail:
    msg: "{{ vllm_serve_result | llmops.vllm.runtime_faults | join(' ') }}"
  when: vllm_serve_result | llmops.vllm.runtime_faults | length > 0
"""

RETURN = r"""
_value:
  description: The faults, each with its evidence and its remedy. Empty if there are none.
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any, Callable


def runtime_faults(server: Mapping[str, Any]) -> list[str]:
    content = server.get("content") or {}
    told = (server.get("log") or {}).get("facts") or {}
    if not server.get("launched") and not told.get("version"):
        return []
    return [*_layers(content.get("drafter") or {}, told), *_version(content.get("build") or {}, told)]


def _layers(drafter: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    wanted, taken = drafter.get("expected_aux_layers"), told.get("auxiliary_layers")
    if not wanted or wanted == taken:
        return []
    if taken is None:
        return [
            "The engine's log names no auxiliary layers, so it took its defaults for the drafter in silence, which are hardly "
            f"the ones that it was trained on ({_list(wanted)}). Look at target_layer_ids in the config.json that the launch script "
            "names. If VLLM_LOGGING_LEVEL hides that line, let it be INFO."
        ]
    return [
        f"The engine hands the layers {_list(taken)} of the target to the drafter, which was trained on {_list(wanted)}. "
        "It counts them in another way than this vLLM version is known to, or reads another config.json."
    ]


def _version(build: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    wanted, runs = build.get("version") or "", told.get("version") or ""
    if not wanted or not runs or _agree(wanted, runs):
        return []
    return [
        f"vLLM {runs} runs, and the build {build.get('id', '')} is {wanted}. Something else is found first on its Python's path."
    ]


def _agree(one: str, other: str) -> bool:
    """Whether two versions may be of the same build. Not all places tell the commit or the device behind the plus: a source build
    that is installed as 0.32.1.dev2+ga8062413a.cpu says of itself 0.32.1.dev2+ga8062413a.
    """
    (release, _plus, local), (other_release, _plus, other_local) = one.partition("+"), other.partition("+")
    told, also_told = set(local.split(".")) - {""}, set(other_local.split(".")) - {""}
    return release == other_release and (told <= also_told or also_told <= told)


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"runtime_faults": runtime_faults}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment_faults
short_description: Why the hosts of a deployment can't go on together
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Several hosts run one server only if each of them gets as far as that, with the same vLLM, the same models and the same arguments. Holds
    what the hosts say against what the first one, the head, says.
positional: step, gone
options:
  _input:
    description:
      - What each host has come to, by rank and name. C(step), C(content) (of its C(release.json)), C(models) (digests of the directories, in
        the same order), C(commit) (of vLLM) and C(ray) (its version and that of Python), where these are known. Null for a host that has come to nothing.
    type: dict
    required: true
  step:
    description: How far all of them have to be.
    type: str
    required: true
  gone:
    description: Hosts that Ansible has lost.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse to go on
  ansible.builtin.fail:
    msg: "{{ musters | llmops.vllm.deployment_faults('written', []) | join(' ') }}"
"""

RETURN = r"""
_value:
  description: What keeps them apart, in sentences. Empty if nothing does.
  type: list
  elements: str
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

RAY_OWN = ("head", "port", "address", "node-ip-address", "temp-dir", "include-dashboard", "no-monitor")
"""The same of Ray. Where the ranks meet is known by the head's own address and port."""

OWN = ("headless", "node-rank", "api-server-count", "host", "port", "speculative-config")
"""Flags that are each host's own. The last one holds a path, and what else is in it is compared by itself."""


def deployment_faults(
    musters: Mapping[str, Mapping[str, Any] | None], step: str, gone: Iterable[str] = ()
) -> list[str]:
    gone = list(gone)
    found = [f"{host} has failed, or is out of reach: see above." for host in gone]
    for host, muster in musters.items():
        if host not in gone and (not muster or muster["step"] != step):
            found.append(f"{host} has not come as far as this: see above.")
    if found:
        return found
    (head, first), *others = musters.items()
    return [fault for host, muster in others for fault in _differences(head, first or {}, host, muster or {})]


def _differences(head: str, first: Mapping[str, Any], host: str, other: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = dict(_told(first["content"])), dict(_told(other["content"]))
    for what in (*ours, *(name for name in theirs if name not in ours)):
        if ours.get(what) != theirs.get(what):
            yield _say(what, head, ours.get(what), host, theirs.get(what))
    if first.get("commit") and other.get("commit") and first["commit"] != other["commit"]:
        yield _say("the commit of vLLM", head, first["commit"], host, other["commit"])
    if first.get("ray") and other.get("ray") and first["ray"] != other["ray"]:
        yield _say("the Ray", head, first["ray"], host, other["ray"])
    for (path, digest), (place, another) in zip(first["models"].items(), other["models"].items()):
        if digest != another:
            yield (
                f"What {path} holds on {head} is not what {place} holds on {host}, by its files' names and sizes or by their JSON. "
                "Fetch the same commit on both (vllm_models_target and vllm_models_drafter with repo and revision), or copy it."
            )


def _say(what: str, head: str, one: Any, host: str, other: Any) -> str:
    return (
        f"{what} is {_text(one)} on {head} and {_text(other)} on {host}. Set what that comes from once, for the group."
    )


def _text(value: Any) -> str:
    return (
        "not set"
        if value is None
        else value or "set"
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False)
    )


def _told(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What has to be the same, by what people call it."""
    build = content["build"]
    yield "the version of vLLM", build["version"]
    # The name of a venv that somebody made is that of its path.
    yield "the build", None if build["id"].startswith("existing-") else build["id"]
    for model in ("target", "drafter"):
        for key in ("repo", "revision", "digest"):
            yield f"the {key} of the {model}", content[model].get(key)
        if content.get("deployment", {}).get("executor") == "ray":  # by which the head tells all workers of it
            yield f"the path of the {model}", content[model]["path"]
    for key, value in content.get("deployment", {}).items():
        if key != "rank":
            yield f"the deployment's {key}", value
    if content.get("deployment", {}).get("executor") == "ray":
        yield from _told_to_ray(_flags(content.get("ray", content["argv"])))
        return
    for flag, value in _flags(content["argv"]).items():
        if flag == "speculative-config":
            yield from ((f"{key} in --{flag}", v) for key, v in json.loads(value).items() if key != "model")
        elif flag not in OWN:
            yield f"--{flag}", value


def _told_to_ray(flags: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """All that a follower is told, as the rest comes from the head when both run."""
    own = flags.get("node-ip-address", "")
    address = f"[{own}]" if ":" in own else own
    yield "where Ray meets", f"{address}:{flags['port']}" if "head" in flags else flags.get("address")
    yield from ((f"--{flag} of Ray", value) for flag, value in flags.items() if flag not in RAY_OWN)


def _flags(argv: Iterable[str]) -> dict[str, str]:
    """Each flag with its value, or with the words that follow it. What comes before the first one are paths."""
    found: dict[str, str] = {}
    flag = ""
    for word in argv:
        if word.startswith("--"):
            flag, _equals, value = word[2:].partition("=")
            found[flag] = value
        elif flag:
            found[flag] = f"{found[flag]} {word}".strip()
    return found


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"deployment_faults": deployment_faults}

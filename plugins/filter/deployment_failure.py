# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment_failure
short_description: Which host of a deployment failed first, and why
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Where several hosts run one server, the failure of one is soon the failure of all, and most of their logs say no more than that another
    one has left. Tells of all that failed the one at the root, with its host, whole, and of each other one in a line.
  - A cause that a log tells goes first. Then comes a server that was killed, ended, was stopped or fell silent, one that was refused before
    it started, a host that Ansible lost, one that can't reach the others, time that was up, a server that is ready and gives no token, and
    last a log that only says that another one left.
positional: lost
options:
  _input:
    description:
      - What came of the launch, by the name of the host, the head first. C(process) (of M(llmops.vllm.vllm_process)), C(log) (of
        M(llmops.vllm.log_wait)) and C(token) (of M(llmops.vllm.vllm_instance_info)) count; each may be missing or empty.
      - Judged by what they say and not by whether their tasks failed, so that a task may go on with C(failed_when=false).
    type: dict
    required: true
  lost:
    description: Hosts that Ansible does not reach any more.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Tell which host failed, and why
  ansible.builtin.fail:
    msg: "{{ failure }}"
  vars:
    failure: "{{ {'gpu1': {'log': head}, 'gpu2': {'log': follower}} | llmops.vllm.deployment_failure([]) }}"
  when: failure | length > 0
"""

RETURN = r"""
_value:
  description: The failure, as lines of text. Empty if nothing failed.
  type: str
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import ENDS, PEER

CAUSE = 0
ENDED = 1
REFUSED = 2
LOST = 3
NETWORK = 4
TIMEOUT = 5
TOKEN = 6
LEFT = 7
ELSEWHERE = 8
"""From what is the nearest to a root to what is none."""
KINDS = {**dict.fromkeys(ENDS, ENDED), "network": NETWORK, PEER: LEFT}
"""Causes that are less than one: how a process ended, that others can't be reached, that they have left."""
VERDICTS = {
    "failed": ENDED,
    "exited": ENDED,
    "stopped": ENDED,
    "stalled": ENDED,
    "missing": ENDED,
    "timeout": TIMEOUT,
    "elsewhere": ELSEWHERE,
}
WIDTH = 200


@dataclasses.dataclass(frozen=True, order=True)
class Failure:
    """Of a host. whole: all that is said of it; short: the same in a line."""

    weight: int
    rank: int
    host: str
    whole: str
    short: str


def deployment_failure(hosts: Mapping[str, Mapping[str, Any]], lost: Iterable[str] = ()) -> str:
    gone = set(lost)
    found = sorted(
        failure
        for rank, (host, told) in enumerate(hosts.items())
        for failure in _failures(rank, host, told or {}, host in gone)
    )
    if not found:
        return ""
    root = found[0]
    others: dict[str, Failure] = {}
    for failure in found[1:]:
        if failure.weight != ELSEWHERE and failure.host != root.host:
            others.setdefault(failure.host, failure)
    lines = [f"{_name(root)}: {root.whole}", *(_name(other) + _also(other) for other in others.values())]
    if root.weight == LEFT:
        lines.append(_ignorance(root, [host for host in hosts if host != root.host]))
    return "\n".join(lines)


def _failures(rank: int, host: str, told: Mapping[str, Any], lost: bool) -> Iterator[Failure]:
    process, log, token = (told.get(name) or {} for name in ("process", "log", "token"))
    if process.get("failed") and not process.get("unreachable"):
        yield Failure(REFUSED, rank, host, _text(process), _line(_text(process)))
    weight = _weight(log)
    if weight is not None:
        cause = str((log.get("cause") or {}).get("text") or "")
        yield Failure(weight, rank, host, _text(log), _line(cause or _text(log)))
    if token.get("failed") or token.get("msg"):
        yield Failure(TOKEN, rank, host, _text(token), _line(_text(token)))
    if lost or any(result.get("unreachable") for result in (process, log, token)):
        said = "Ansible does not reach this host any more, or it failed before"
        remedy = "See above. What runs there was not stopped: it ends when stop.yml, or the next run, reaches the host."
        yield Failure(LOST, rank, host, f"{said}. {remedy}", f"{said}.")


def _weight(log: Mapping[str, Any]) -> int | None:
    """How near to a root that is what a log says. None if it says nothing against its server."""
    verdict = log.get("verdict")
    if verdict is None:  # it could not even be looked at
        nothing = log.get("skipped") or log.get("unreachable")
        return ENDED if (log.get("failed") or log.get("msg")) and not nothing else None
    cause = log.get("cause")
    if verdict in ("failed", "exited") and cause:
        return KINDS.get(cause.get("kind"), CAUSE)
    return VERDICTS.get(verdict)


def _also(failure: Failure) -> str:
    return (
        f" only says that another one left: {failure.short}"
        if failure.weight == LEFT
        else f" failed as well: {failure.short}"
    )


def _ignorance(root: Failure, others: list[str]) -> str:
    if not others:
        return f"{root.host} only says that another one left."
    know = f"log of {others[0]} knows" if len(others) == 1 else f"logs of {', '.join(others)} know"
    return (
        f"So {root.host} only says that another one left, and the {know} no cause. See whether a process there was killed "
        "(`journalctl -k | grep -i 'out of memory'`), the host was restarted, or the network between them failed."
    )


def _name(failure: Failure) -> str:
    return f"{failure.host} (rank {failure.rank})"


def _text(result: Mapping[str, Any]) -> str:
    return str(result.get("msg") or "It failed, and does not say why.").strip()


def _line(text: str) -> str:
    return text.partition("\n")[0].strip()[:WIDTH]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"deployment_failure": deployment_failure}

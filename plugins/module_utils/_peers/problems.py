# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps the hosts of a deployment apart, in words: who, from whom, where, how, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._peers.meeting import Deployment, Failure, Place
from ansible_collections.llmops.vllm.plugins.module_utils._peers.talking import (
    NO_ROUTE,
    REFUSED,
    SILENT,
    STRANGE,
    TIMED_OUT,
)

SHOWN = 8  # hosts that are named, of those to whom the same happened
LATE = "late"
SAID = {
    TIMED_OUT: "timed out, so a firewall probably drops it",
    REFUSED: "was refused, so a firewall probably rejects it",
    NO_ROUTE: "has no route, or a firewall says so",
    SILENT: "was connected and got no answer, so larger packets probably get lost on the way",
    STRANGE: "was answered by something else, so another host probably has that address too",
}
AT_HEAD = {
    TIMED_OUT: "timed out, so a firewall probably drops it",
    REFUSED: "nobody listens, or a firewall rejects it",
    NO_ROUTE: "no route, or a firewall says so",
    SILENT: "something else listens",
    STRANGE: "something else listens",
}


def pairs(deployment: Deployment, failures: Sequence[Failure], places: Sequence[Place | None]) -> list[str]:
    """One for each way in which connections from or to this host failed."""
    # Who has no route to another can't answer it either.
    known = {(each.called, each.caller) for each in failures if each.how == NO_ROUTE}
    causes = [each for each in failures if not (each.how == TIMED_OUT and each[:2] in known)]
    ours = sorted(each for each in causes if deployment.rank in each[:2])
    found = []
    for how in dict.fromkeys(each.how for each in ours):
        called: dict[int, list[str]] = {}
        for each in ours:
            if each.how == how:
                called.setdefault(each.called, []).append(deployment.named(each.caller))
        rows = [
            f"{some(names)} could not reach {deployment.named(rank)} at {places[rank]}"
            for rank, names in called.items()
        ]
        found.append(f"{some(rows)}: it {SAID.get(how, f'failed ({how})')}. {_remedy(deployment, [how])}")
    return found


def unreachable(deployment: Deployment, hows: Mapping[Place, str], waited: float) -> str:
    """hows: how each place failed where the head may be."""
    me, head = deployment.me, deployment.named(0)
    if LATE in hows.values():
        return (
            f"{me} came to {head} when that waited no longer. All {len(deployment.peers)} hosts of {deployment.name} have to be looked "
            "at at once: raise Ansible's forks, or vllm_deployment_timeout where a host is slow."
        )
    by: dict[str, list[str]] = {}
    for place, how in hows.items():
        by.setdefault(AT_HEAD.get(how, how), []).append(str(place))
    told = "; ".join(f"at {some(places)}: {how}" for how, places in by.items())
    barred = [how for how in hows.values() if how in (TIMED_OUT, NO_ROUTE)]
    remedy = _remedy(deployment, barred)
    if not barred:
        remedy = f"If {head} has a message of its own, that says why; if not, {remedy[0].lower()}{remedy[1:]}"
    return f"{me} could not reach {head} within {waited:.0f} s, {told}. {remedy}"


def unknown(deployment: Deployment, why: str) -> str:
    head = deployment.peers[0]
    return (
        f"{deployment.me} can't resolve {head.address}, the address of {head.name}: {why}. Set vllm_deployment_address of {head.name} "
        "to an IP, or have the name known everywhere."
    )


def never_came(deployment: Deployment, missing: Sequence[int], place: Place, waited: float) -> str:
    names = some([deployment.named(rank) for rank in missing])
    says = "Its own message says" if len(missing) == 1 else "Their own messages say"
    return f"{names} never came to {place} within {waited:.0f} s. {says} why."


def lost(deployment: Deployment, ranks: Sequence[int]) -> list[str]:
    """Who came, and was not heard of to the end."""
    if not ranks:
        return []
    names = some([deployment.named(rank) for rank in ranks])
    return [f"{names} came to {deployment.me} and was lost before all had tried each other. Its own message says why."]


def left_alone(deployment: Deployment) -> str:
    return (
        f"{deployment.me} was left alone by {deployment.named(0)} before all had tried each other. The message of "
        f"{deployment.named(0)} says why."
    )


def held(deployment: Deployment, port: int, owner: str) -> str:
    remedy = (
        "An earlier run has left it, and it ends by itself within its timeout: run this again then."
        if "vllm_peers" in owner
        else "Stop that, or set vllm_deployment_port to another port, for the whole group."
    )
    return f"Port {port} of {deployment.me}, where the ranks of {deployment.name} meet, is held by {owner}. {remedy}"


def full(deployment: Deployment) -> str:
    return (
        f"Ports {deployment.port} and {deployment.port + 1} of {deployment.me} are both held by the server that runs, so its hosts can't "
        "meet there. Set vllm_deployment_port to another port, for the whole group."
    )


def deaf(deployment: Deployment, place: Place, error: OSError) -> str:
    return f"{deployment.me} can't listen at {place}: {error.strerror or error}. Choose another by vllm_deployment_address or vllm_deployment_port."


def apart(deployment: Deployment, ahead: float) -> str:
    return (
        f"The clock of {deployment.me} is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} that of {deployment.named(0)}. "
        "Have both keep time (chrony or systemd-timesyncd; timedatectl tells whether they do)."
    )


def some(names: Sequence[str]) -> str:
    """a, b and c; and how many more where there are many."""
    rows = list(names) if len(names) <= SHOWN else [*names[:SHOWN], f"{len(names) - SHOWN} more"]
    return " and ".join([", ".join(rows[:-1]), rows[-1]] if len(rows) > 1 else rows)


def _remedy(deployment: Deployment, hows: Sequence[str]) -> str:
    if NO_ROUTE in hows:
        return (
            f"Have the networks of the hosts of {deployment.name} routed to each other, or choose addresses of one network by "
            "vllm_deployment_address."
        )
    if SILENT in hows:
        return "Give all interfaces and switches on the way the same MTU."
    if STRANGE in hows:
        return "Give each host an address of its own, by vllm_deployment_address."
    return (
        f"Open all TCP ports between the hosts of {deployment.name}, since vLLM, Gloo and NCCL use any, or choose addresses of a network "
        "where they are, by vllm_deployment_address."
    )

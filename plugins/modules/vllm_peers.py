#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_peers
short_description: See that the hosts of a deployment reach each other
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Runs on all hosts of a deployment at once, as they meet. Each finds the interface that has its address, and tries each other one in both
    directions at ports that the system chooses, as those of Gloo and ZeroMQ. Fails with all that keeps them apart, at both ends.
  - Compares the clocks, and tells of each model what it can be compared by.
  - Nothing is sent to a server that runs already, and none is disturbed.
options:
  name:
    description: The name of the deployment.
    type: str
    required: true
  rank:
    description: The rank of this host.
    type: int
    required: true
  peers:
    description: All hosts of the deployment by rank, this one too. 256 at most.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: What the host is called in messages.
        type: str
        required: true
      address:
        description: The address at which the others reach it, an IP or a name.
        type: str
        required: true
  port:
    description: The master port of torch.distributed. The ranks meet there at rank 0, or at the next one while a server of theirs runs.
    type: int
    default: 29501
  interface:
    description: The interface of this host that has its address. Found unless given.
    type: str
  instance:
    description: The directory of the instance. A server of this instance may hold O(port).
    type: path
  models:
    description: Models that the hosts have to have alike.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds in which it ends, whatever happens. The first are for waiting for each other, the last 8, or half of them, for the rest.
    type: int
    default: 30
extends_documentation_fragment:
  - llmops.vllm.read_only
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing. In check mode it looks for the address and at the models, and meets nobody.
notes:
  - Ansible has to run it on all hosts of the deployment at the same time, so there have to be as many forks.
"""

EXAMPLES = r"""
- name: See that two hosts could serve one model
  llmops.vllm.vllm_peers:
    name: big
    rank: "{{ groups['big'].index(inventory_hostname) }}"
    peers:
      - {name: gpu1, address: 192.0.2.11}
      - {name: gpu2, address: 192.0.2.12}
    models: [/srv/models/Qwen3.6-27B]
"""

RETURN = r"""
address:
  description: The IP of this host that its address means, null if there is none.
  returned: always
  type: str
  sample: 192.0.2.11
interface:
  description: The interface that has it, null if there is none.
  returned: always
  type: str
  sample: eth0
faults:
  description: What keeps the hosts apart as far as it concerns this one, each with its remedy.
  returned: always
  type: list
  elements: str
clock_offset:
  description: Seconds by which the clock of this host is ahead of that of rank 0, null if they did not meet.
  returned: always
  type: float
models:
  description: A digest of each model, by its path. It is made of the names and sizes of all files, and of what is in the JSON files up to a MiB
    each. Null for what is not there.
  returned: always
  type: dict
  sample: {"/srv/models/Qwen3.6-27B": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"}
peers:
  description: The other hosts by rank, C(name) and C(seconds) of each. That is how long a connection and a short talk took, null if it was not reached.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "gpu2", "seconds": 0.0021}]
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import leftovers, ports, processes, refusals
from ansible_collections.llmops.vllm.plugins.module_utils._peers import contents, interfaces, problems
from ansible_collections.llmops.vllm.plugins.module_utils._peers.aside import Aside
from ansible_collections.llmops.vllm.plugins.module_utils._peers.follower import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._peers.head import Head
from ansible_collections.llmops.vllm.plugins.module_utils._peers.meeting import MOST, Deployment, Member, Outcome, Peer

LEAST = 5  # seconds of a timeout
RESOLVER = 1 / 6  # of the timeout, for each of two names


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "rank": {"type": "int", "required": True},
            "peers": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str", "required": True},
                },
            },
            "port": {"type": "int", "default": 29501},
            "interface": {"type": "str"},
            "instance": {"type": "path"},
            "models": {"type": "list", "elements": "path", "default": []},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    p = module.params
    end = time.monotonic() + p["timeout"]
    result: dict[str, Any] = {"address": None, "interface": None, "clock_offset": None, "models": {}, "peers": []}
    faults = refused(p)
    if not faults:
        models = Aside(lambda: {path: contents.fingerprint(path) for path in p["models"]})
        deployment = Deployment(p["name"], p["rank"], tuple(Peer(**each) for each in p["peers"]), p["port"])
        try:
            patience = p["timeout"] * RESOLVER
            place = find(deployment, p["interface"], patience)
            result.update(address=place.address, interface=place.interface)
            if not module.check_mode and len(deployment.peers) > 1:
                outcome = member(deployment, place.address, p["instance"], end, patience).meet()
                result.update(told(deployment, outcome))
                faults += outcome.faults
        except interfaces.PlaceError as e:
            faults.append(str(e))
        try:
            result["models"] = models.result(end - time.monotonic())
        except TimeoutError:
            faults.append(
                f"The files of {' and '.join(p['models'])} can't be looked at within {p['timeout']} s. See whether their disk answers."
            )
        except OSError as e:
            faults.append(refusals.told(e, p["models"][0]))
    if faults:
        module.fail_json(msg="\n".join([*faults, "Nothing was stopped or started."]), faults=faults, **result)
    module.exit_json(changed=False, faults=[], **result)


def refused(p: dict[str, Any]) -> list[str]:
    """What no role would give."""
    names, addresses = ([each[what] for each in p["peers"]] for what in ("name", "address"))
    if not 0 <= p["rank"] < len(names) <= MOST:
        return [
            f"rank {p['rank']} is none of {len(names)} peers, and {MOST} are the most. Give all hosts of the deployment, by rank."
        ]
    if not 0 < p["port"] < 65535:
        return [f"port {p['port']} is none, or the last. Give one of 1 to 65534."]
    if p["timeout"] < LEAST:
        return [f"timeout {p['timeout']} is too short. Give {LEAST} s or more."]
    if len(set(names)) < len(names):
        return [f"peers has a host twice: {', '.join(names)}. Give each once."]
    mine = addresses[p["rank"]]
    alike = [name for name, address in zip(names, addresses) if address == mine]
    if len(alike) > 1:
        return [
            f"{' and '.join(alike)} have the same address, {mine}. Set vllm_deployment_address, or ansible_host, to the address of each."
        ]
    return []


def find(deployment: Deployment, interface: str | None, patience: float) -> interfaces.Carried:
    """The address of this host that the deployment means. Raises PlaceError."""
    address = deployment.peers[deployment.rank].address
    try:
        resolved = Aside(lambda: interfaces.resolve(address)).result(patience)
    except OSError as e:
        raise interfaces.PlaceError(
            f"{deployment.me} can't resolve its own address {address}: {e.strerror or e}. {interfaces.REMEDY}."
        ) from None
    try:
        ours = interfaces.carried()
    except OSError as e:
        raise interfaces.PlaceError(
            f"The addresses of {deployment.me} can't be listed: {e.strerror or e}. The kernel has to allow netlink."
        ) from None
    return interfaces.choose(deployment.me, address, resolved, interface, ours, loopback=len(deployment.peers) == 1)


def member(deployment: Deployment, address: str, instance: str | None, end: float, patience: float) -> Member:
    """This host in the meeting. Raises PlaceError if it can't know where that is."""
    if deployment.rank == 0:
        return Head(deployment, address, end - time.monotonic(), owner=lambda port: owner(port, instance))
    try:
        heads = Aside(lambda: interfaces.resolve(deployment.peers[0].address)).result(patience)
    except OSError as e:
        raise interfaces.PlaceError(problems.unknown(deployment, e.strerror or str(e))) from None
    return Follower(deployment, address, end - time.monotonic(), heads=heads[:2])


def owner(port: int, instance: str | None) -> str:
    """Who listens on a port, empty if that is the instance's own server."""
    pids = ports.listeners(port)
    if instance and set(pids) & set(leftovers.of(instance)):
        return ""
    return " and ".join(map(processes.describe, pids)) or "a process that this user may not see"


def told(deployment: Deployment, outcome: Outcome) -> dict[str, Any]:
    others = [(rank, peer.name) for rank, peer in enumerate(deployment.peers) if rank != deployment.rank]
    return {
        "clock_offset": outcome.offset,
        "peers": [{"name": name, "seconds": outcome.seconds.get(rank)} for rank, name in others],
    }


if __name__ == "__main__":
    main()

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the workers of a launch can be where they are to be: on the GPUs of a host, on several hosts that run one server.

vLLM divides all workers evenly over its nodes, in the order of the replicas (create_engine_config, ParallelConfig.nnodes_within_dp). Some
divisions that it takes leave a worker out, and the others wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

TENSOR, STAGES, CONTEXT = "tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size"
REPLICAS, BALANCER, LOCAL = "data-parallel-size", "data-parallel-backend", "data-parallel-size-local"
EXECUTOR = "distributed-executor-backend"
DEVICES = "CUDA_VISIBLE_DEVICES"
BALANCED = (
    "data-parallel-external-lb",
    "data-parallel-hybrid-lb",
    "data-parallel-multi-port-external-lb",
    "data-parallel-rank",
    "data-parallel-start-rank",
)
"""By these each host has an API of its own, and something else in front of them."""


def faults(flags: Mapping[str, Any], hosts: int, executor: str, gpus: int | None, visible: str | None) -> list[str]:
    """What is wrong, each with its remedy. gpus: what the server of a host would see, None where that can't be told."""
    sizes = {name: size(flags, name) for name in (TENSOR, STAGES, CONTEXT, REPLICAS)}
    if hosts < 2:
        return _one_host(sizes[TENSOR], sizes[STAGES], gpus, visible)
    found = _contradictions(flags, executor)
    tensor, stages, context, replicas = sizes.values()
    if tensor is None or stages is None or context is None or replicas is None:
        return found
    world = tensor * stages * context * replicas
    named = " x ".join((TENSOR, STAGES, *([CONTEXT] if context > 1 else []), REPLICAS))
    if world < hosts:
        idle = "the second host" if hosts == 2 else f"{hosts - world} of the hosts"
        return [
            *found,
            f"There is nothing for {idle} to do: {named} is {world} and there are {hosts} hosts. Raise {TENSOR} or {STAGES} "
            f"until it is {hosts} or a multiple of that, or leave vllm_deployment out and serve on one host.",
        ]
    if world % hosts:
        return [
            *found,
            f"{named} is {world}, which {hosts} hosts can't share evenly: make it a multiple of {hosts}, or have another number of "
            "hosts in the group of vllm_deployment.",
        ]
    if replicas % hosts and hosts % replicas:
        found.append(
            f"{REPLICAS} is {replicas} on {hosts} hosts, so that a host would have one replica and a part of another: make it a "
            f"multiple of {hosts}, or a number that divides {hosts}."
        )
    elif executor == "ray":
        found += _over_ray(flags, replicas, hosts) if replicas > 1 else []
    elif flags.get(LOCAL) is not None and number(flags[LOCAL]) != max(replicas // hosts, 1):
        found.append(
            f"{LOCAL} is {flags[LOCAL]}, and of {REPLICAS} {replicas} each of the {hosts} hosts has {max(replicas // hosts, 1)}: "
            "leave it out, as vLLM comes to that by itself."
        )
    if gpus is not None and world // hosts > gpus:
        found.append(
            f"{named} is {world}, and each of the {hosts} hosts takes {world // hosts} GPUs of its own. The server would see "
            f"{gpus} here{_said(visible)}: lower them, or have more hosts in the group of vllm_deployment."
        )
    return found


def share(flags: Mapping[str, Any], hosts: int) -> int | None:
    """How many workers each of so many hosts has, None where that can't be told."""
    sizes = [size(flags, name) for name in (TENSOR, STAGES, CONTEXT, REPLICAS)]
    return None if None in sizes else math.prod(n for n in sizes if n is not None) // hosts


def _one_host(tensor: int | None, stages: int | None, gpus: int | None, visible: str | None) -> list[str]:
    if tensor is None or stages is None or gpus is None or tensor * stages <= gpus:
        return []
    return [
        f"{TENSOR} {tensor} and {STAGES} {stages} take {tensor * stages} GPUs, and the server would see {gpus}{_said(visible)}: "
        "lower them, or have several hosts run one server, by vllm_deployment."
    ]


def _contradictions(flags: Mapping[str, Any], executor: str) -> list[str]:
    """What would have the hosts do something else than run one server behind the API of the head."""
    found = [
        f"{name} gives each host an API of its own, and in a deployment the head alone has one: leave it out, or leave "
        "vllm_deployment out."
        for name in BALANCED
        if flags.get(name) is not None and flags[name] is not False  # 0 is a rank
    ]
    if flags.get(EXECUTOR) not in (None, executor):
        found.append(
            f"{EXECUTOR} is {flags[EXECUTOR]}, and vllm_deployment_executor {executor}: leave the former out, the latter says it."
        )
    if executor == "mp" and flags.get(BALANCER) not in (None, "mp"):
        found.append(
            f"{BALANCER} is {flags[BALANCER]}, and vllm_deployment_executor mp takes no other than mp: leave it out."
        )
    return found


def _over_ray(flags: Mapping[str, Any], replicas: int, hosts: int) -> list[str]:
    """vLLM starts all replicas at the head unless Ray starts them, and then as many at the head as are not said to be elsewhere."""
    wanted: dict[str, Any] = {BALANCER: "ray"}
    if replicas % hosts == 0:
        wanted[LOCAL] = replicas // hosts
    if all(str(flags.get(name)) == str(value) for name, value in wanted.items()):
        return []
    said = " and ".join(f"{name} {value}" for name, value in wanted.items())
    return [
        f"{REPLICAS} is {replicas}, and over Ray the hosts share that only with {said}: set that, or vllm_deployment_executor to mp."
    ]


def _said(visible: str | None) -> str:
    return "" if visible is None else f" ({DEVICES} is {visible!r})"


def size(flags: Mapping[str, Any], name: str) -> int | None:
    """A size as it is given, 1 if it isn't, None if it is given in words of vLLM's own."""
    value = flags.get(name)
    return 1 if value is None else number(value)


def number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        return None

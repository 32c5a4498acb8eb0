# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the parts of a server run: on which GPUs, and as which rank of a launch over several hosts, with whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import gpus

VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
ADDRESSES = ("VLLM_HOST_IP", "RAY_ADDRESS", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
SIZES = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "nnodes")
MASTER_PORT = 29501


@dataclasses.dataclass(frozen=True)
class Gpus:
    """What nvidia-smi tells of the host. why: why it tells nothing; empty if it does."""

    found: Sequence[gpus.Gpu] = ()
    why: str = ""

    @classmethod
    def ask(cls) -> Gpus:
        try:
            found = gpus.ask()
        except gpus.NoAnswerError as e:
            return cls(why=str(e))
        return cls(found, "" if found else "nvidia-smi finds none here, or is not there")

    def used_by(self, pids: Collection[int]) -> list[dict[str, Any]]:
        """The GPUs that these processes use, and how much of their memory in MiB, None where the driver does not tell."""
        used = []
        for gpu in self.found:
            own = [process.memory_used for process in gpu.processes if process.pid in pids]
            if own:
                memory = None if None in own else sum(filter(None, own))
                used.append({"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_used": memory})
        return used


def of(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None, pids: Collection[int], host: Gpus, peers: Collection[str]
) -> dict[str, Any]:  # fmt: skip
    """pids: all its processes. peers: whom they are connected with, but for its clients. What can't be known is said in `unknown`."""
    told = environment or {}
    used = host.used_by(pids)
    sizes = {name.replace("-", "_"): _number(flags.get(name), 1) for name in SIZES}
    several = spans_hosts(flags)
    found = {
        "visible": {name: told[name] for name in VISIBLE if name in told},
        "gpus": used if used or not host.why else None,
        **sizes,
        "node_rank": _number(flags.get("node-rank"), 0) if sizes["nnodes"] > 1 else None,
        "data_parallel_rank": flags.get("data-parallel-rank", flags.get("data-parallel-start-rank")),
        "head": _head(flags),
        "backend": str(flags.get("distributed-executor-backend") or ""),
        "addresses": {name: told[name] for name in ADDRESSES if name in told},
        "peers": sorted(peers) if several else [],
    }
    unknown = []
    if environment is None:
        unknown.append("which GPUs it was given, as its environment can't be read")
    if host.why:
        unknown.append(f"which GPUs it uses: {host.why}")
    elif not used:
        unknown.append("which GPUs it uses: nvidia-smi names none of its processes, as within a container it can't")
    if several and not peers:
        unknown.append("its peers: no connection of its engines to another host can be seen")
    if by_ray(flags):
        unknown.append("which nodes Ray has put its workers on: ask `ray status` where Ray's head runs")
    return {**found, "unknown": unknown}


def spans_hosts(flags: Mapping[str, Any]) -> bool:
    """Whether it may have parts on other hosts."""
    return _number(flags.get("nnodes"), 1) > 1 or by_ray(flags) or "data-parallel-address" in flags


def by_ray(flags: Mapping[str, Any]) -> bool:
    return "ray" in (flags.get("distributed-executor-backend"), flags.get("data-parallel-backend"))


def _head(flags: Mapping[str, Any]) -> str:
    """Where the ranks meet; empty if that is not said."""
    if "master-addr" in flags:
        return f"{flags['master-addr']}:{flags.get('master-port', MASTER_PORT)}"
    return str(flags.get("data-parallel-address") or "")


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default

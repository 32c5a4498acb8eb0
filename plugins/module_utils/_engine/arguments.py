# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known to be wrong with the arguments of a launch, before anything is stopped for it.

Judges what is said and what is read. What vLLM would choose by itself is left to it: its defaults depend on the hardware.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine import parallel, ray
from ansible_collections.llmops.vllm.plugins.module_utils._engine.parallel import number

_TOGETHER = "Have the inventory say it: vllm_deployment is the group of the hosts that run one server"
NOT_HERE = {
    "host": "Set vllm_serve_host instead, so that all tasks know it.",
    "port": "Set vllm_serve_port instead, so that all tasks know it.",
    "model": "Set vllm_models_target instead, so that all tasks know it.",
    "speculative-config": "Set vllm_serve_speculative instead, so that it is judged.",
    "ssl-certfile": "What waits for the server and measures it speaks http: put what speaks https before it, and leave this out.",
    "nnodes": f"{_TOGETHER}.",
    "node-rank": f"{_TOGETHER}, and the first of them, or vllm_deployment_head, is rank 0.",
    "headless": f"{_TOGETHER}, and all but the first of them, or vllm_deployment_head, are headless.",
    "master-addr": f"{_TOGETHER}, and vllm_deployment_address of a host is where the others reach it.",
    "master-port": f"{_TOGETHER}, and vllm_deployment_port is where they meet.",
}
"""Flags that are no business of vllm_serve_args, each with what to do instead. Those that are secret don't come as far as here."""
READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
RUNNER_SINCE = (0, 26)
"""The first version whose V2 runner takes drafters with sliding and full attention layers, and no other runner does."""
MIXED = {"sliding_attention", "full_attention"}


@dataclasses.dataclass(frozen=True)
class Launch:
    """What a launch is made of.

    args: the flags as the inventory gives them; argv: the words that vLLM will get.
    drafter: the drafter's config.json. version: of vLLM. gpus: how many devices there are, None where that can't be told.
    environment: what is asked for here of the server's environment, the rest of which may hold secrets.
    timeout: seconds that are waited for the server.
    hosts: how many run this server together, by what executor. directory and has_token: Ray's, where it is that.
    gpus and environment are those of the host that is looked at.
    """

    args: Mapping[str, Any]
    speculative: Mapping[str, Any]
    argv: Sequence[str] = ()
    drafter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    version: str = ""
    gpus: int | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    timeout: float = 0
    host: str = "127.0.0.1"
    port: int = 8000
    has_key: bool = False
    hosts: int = 1
    executor: str = "mp"
    directory: str = ""
    has_token: bool = False


def faults(launch: Launch) -> list[str]:
    """What is wrong, each with its remedy; empty if nothing is known to be."""
    named: dict[str, list[str]] = {}
    for name in launch.args:
        named.setdefault(str(name).lstrip("-").replace("_", "-"), []).append(str(name))
    flags = _flags(launch)
    found = [
        f"{' and '.join(names)} are one flag, given twice: keep one." for names in named.values() if len(names) > 1
    ]
    found += [f"vllm_serve_args holds {name}. {instead}" for name, instead in NOT_HERE.items() if name in flags]
    if not 0 < launch.port < 65536:
        found.append(f"vllm_serve_port is {launch.port}: a port is a number from 1 to 65535.")
    found += _exposure(launch)
    found += _json(flags, launch)
    found += _drafting(launch)
    found += _budget(flags, launch.speculative)
    found += _parallel(flags, launch)
    if launch.hosts > 1 and launch.executor == ray.NAME:
        found += ray.faults(workers(launch), launch.directory, launch.has_token)
    if _mixed(launch) and launch.environment.get(RUNNER, "1") != "1":
        found.append(
            "The drafter has sliding and full attention layers, which only the V2 model runner can run, and "
            f"{RUNNER} is {launch.environment[RUNNER]}: take it out of vllm_serve_env."
        )
    found += _patience(launch)
    return found


def needed(launch: Launch) -> dict[str, str]:
    """Variables that the launch needs in its environment, whatever else is in there."""
    return {RUNNER: "1"} if _mixed(launch) else {}


def workers(launch: Launch) -> int | None:
    """How many each host has, None where that can't be told."""
    return parallel.share(_flags(launch), launch.hosts)


def _flags(launch: Launch) -> dict[str, Any]:
    return {str(name).lstrip("-").replace("_", "-"): value for name, value in launch.args.items()}


def _mixed(launch: Launch) -> bool:
    """Whether the drafter needs the V2 runner. Older versions have none that could run it, which is for drafter_config to say."""
    kinds = launch.drafter.get("layer_types")
    found = re.match(r"(\d+)\.(\d+)", launch.version)
    since = found is not None and (int(found[1]), int(found[2])) >= RUNNER_SINCE
    return since and isinstance(kinds, list) and set(kinds) >= MIXED


def _exposure(launch: Launch) -> list[str]:
    if launch.has_key or is_loopback(launch.host):
        return []
    return [
        f"vllm_serve_host {launch.host} opens the server to the network, and anybody could use it: "
        "set vllm_serve_api_key, or vllm_serve_host to 127.0.0.1."
    ]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _json(flags: Mapping[str, Any], launch: Launch) -> list[str]:
    """Whether every dictionary arrives as it was given, and text that is to be JSON is."""
    found = []
    given = dict(flags)
    if launch.argv:
        given["speculative-config"] = launch.speculative
        words = {word.partition("=")[0]: word.partition("=")[2] for word in launch.argv if word.startswith("--")}
    for name, value in given.items():
        if isinstance(value, Mapping) and launch.argv:
            arrived = _parsed(words.get(f"--{name}", ""))
            if arrived != value:
                found.append(f"{name} would not reach vLLM as it was given: {arrived!r} in place of {value!r}.")
        elif isinstance(value, str) and value.lstrip().startswith("{") and _parsed(value) is None:
            found.append(f"{name} is meant as JSON and is none: {value!r}. Write it as a dictionary.")
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _drafting(launch: Launch) -> list[str]:
    tokens = launch.speculative.get("num_speculative_tokens")
    if tokens is None:
        return [
            "How many tokens the drafter proposes at a time is not known. Run the role vllm_drafter before, or set "
            "num_speculative_tokens in vllm_serve_speculative to the drafter's block_size - 1."
        ]
    count = number(tokens)
    if count is None or count < 1:
        return [f"num_speculative_tokens is {tokens!r}: it must be a whole number of at least 1."]
    block = number(launch.drafter.get("block_size"))
    if block is not None and launch.speculative.get("method") == "dflash" and count > block - 1:
        return [
            f"num_speculative_tokens is {count}, and the drafter's block_size {block} gives no more than {block - 1}: "
            f"set it to {block - 1}."
        ]
    return []


def _budget(flags: Mapping[str, Any], speculative: Mapping[str, Any]) -> list[str]:
    """Each sequence of a step takes its token and all that are drafted for it."""
    tokens = number(speculative.get("num_speculative_tokens"))
    budget, sequences = number(flags.get("max-num-batched-tokens")), number(flags.get("max-num-seqs"))
    if budget is not None and tokens is not None and budget < tokens + 1:
        return [
            f"max-num-batched-tokens is {budget}, and one sequence with its {tokens} drafted tokens needs {tokens + 1}: raise it."
        ]
    if tokens is None or budget is None or sequences is None or budget >= sequences * (tokens + 1):
        return []
    return [
        f"max-num-batched-tokens is {budget}, but max-num-seqs {sequences} with {tokens} drafted tokens each needs "
        f"{sequences * (tokens + 1)}: raise it, or lower max-num-seqs to {max(budget // (tokens + 1), 1)}."
    ]


def _parallel(flags: Mapping[str, Any], launch: Launch) -> list[str]:
    # An engine for the CPU finds no GPU, whatever there is, and it is its version by which vLLM itself tells one.
    gpus, visible = None if "cpu" in launch.version else launch.gpus, launch.environment.get(parallel.DEVICES)
    if gpus is not None and visible is not None:
        gpus = min(gpus, len([name for name in visible.split(",") if name.strip()]))
    found = parallel.faults(flags, launch.hosts, launch.executor, gpus, visible)
    draft = number(launch.speculative.get("draft_tensor_parallel_size"))
    size = parallel.size(flags, parallel.TENSOR)
    if draft is not None and size is not None and draft not in (1, size):
        found.append(f"draft_tensor_parallel_size is {draft}: it can only be 1 or the target's {size}.")
    return found


def _patience(launch: Launch) -> list[str]:
    said = launch.environment.get(READY_TIMEOUT)
    patience = number(said)
    if said is None or (patience is not None and patience >= launch.timeout):
        return []
    if patience is None:
        return [f"{READY_TIMEOUT} is {said!r}: it must be a whole number of seconds."]
    return [
        f"{READY_TIMEOUT} is {patience}: the engine would give up before vllm_serve_timeout, {launch.timeout:g} s, is "
        "over. Take it out of vllm_serve_env, and both are the same."
    ]

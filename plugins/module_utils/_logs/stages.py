# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start has come, and what the server tells of itself on the way. Data, as in patterns."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class Stage:
    """A line that begins a stage; hint: where to look if it never ends."""

    name: str
    regex: re.Pattern[str]
    sample: str
    hint: str = ""


@dataclasses.dataclass(frozen=True)
class Fact:
    """A line that tells a value: the first group, converted."""

    name: str
    regex: re.Pattern[str]
    sample: str
    value: Any
    convert: Callable[[str], Any] = str


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def _s(name: str, regex: str, sample: str, hint: str = "") -> Stage:
    return Stage(name, re.compile(regex), sample, hint)


def _f(name: str, regex: str, sample: str, value: Any, convert: Callable[[str], Any] = str) -> Fact:
    return Fact(name, re.compile(regex), sample, value, convert)


STAGES = (
    _s("reading the configuration", r"^non-default args: ", "non-default args: {'port': 8000}"),
    _s(
        "starting the engine",
        r"^Initializing a V1 LLM engine",
        "Initializing a V1 LLM engine (v0.32.0) with config: model='/srv/models/target'",
    ),
    _s(
        "joining the workers",
        r"^world_size=\d+ rank=\d+|^vLLM is using nccl",
        "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:51111 backend=nccl",
        "The workers may be unable to reach each other over PCIe: try NCCL_P2P_DISABLE=1; across hosts, see that"
        " NCCL_SOCKET_IFNAME and VLLM_HOST_IP name the right interface.",
    ),
    _s(
        "loading the weights",
        r"^Starting to load model |^Loading safetensors checkpoint shards:",
        "Starting to load model /srv/models/target...",
        "Slow storage? Compare what `iostat` or `nfsiostat` shows with the size of the model.",
    ),
    _s("loading the drafter", r"^Loading drafter model", "Loading drafter model..."),
    _s(
        "compiling",
        r"^(?:\S+: )?(?:Using cache directory: .* for vLLM's torch\.compile|Dynamo bytecode transform time)",
        "Using cache directory: /var/cache/vllm/torch_compile_cache/4f/rank_0_0 for vLLM's torch.compile",
        "The first compilation takes minutes; later starts use the cache.",
    ),
    _s(
        "sizing the KV cache",
        r"^Available KV cache memory: |^Memory profiling takes|KV cache size: ",
        "Available KV cache memory: 41.10 GiB",
    ),
    _s(
        "capturing CUDA graphs",
        r"^Capturing .*CUDA graphs?\b",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67",
    ),
    _s("starting the HTTP server", r"^Starting vLLM (?:API )?server", "Starting vLLM server on http://127.0.0.1:8000"),
)

PERCENT = re.compile(r"^(?:Loading [\w ]*checkpoint shards|Capturing .*CUDA graphs[^:]*):\s+(\d+)%")

FACTS = (
    _f(
        "version",
        r"(?:\bversion |LLM engine \(v)(\d+\.\d+[\w.+-]*)",
        "Initializing a V1 LLM engine (v0.32.0) with config: x",
        "0.32.0",
    ),
    _f(
        "target",
        r"^Initializing a V1 LLM engine .*? config: model='([^']+)'",
        "Initializing a V1 LLM engine (v0.32.0) with config: model='/srv/models/target', x",
        "/srv/models/target",
    ),
    _f(
        "drafter",
        r"SpeculativeConfig\(method='\w+', model='([^']+)'",
        "speculative_config=SpeculativeConfig(method='dflash', model='/srv/models/draft', num_spec_tokens=7)",
        "/srv/models/draft",
    ),
    _f(
        "num_speculative_tokens",
        r"SpeculativeConfig\(.*?num_spec_tokens=(\d+)",
        "speculative_config=SpeculativeConfig(method='dflash', model='/m', num_spec_tokens=7)",
        7,
        int,
    ),
    _f("max_model_len", r"^Using max model len (\d+)", "Using max model len 512", 512, int),
    _f(
        "world_size",
        r"^world_size=(\d+) rank=",
        "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl",
        2,
        int,
    ),
    _f(
        "backend",
        r"^world_size=\d+ rank=.* backend=(\w+)",
        "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl",
        "nccl",
    ),
    _f(
        "attention_backend",
        r"^Using (\w+) attention backend",
        "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN']",
        "FLASH_ATTN",
    ),
    _f(
        "runner",
        r"[Uu]sing (?:the )?(V\d) (?:m|M)odel (?:r|R)unner",
        "Model Runner V2 requires Triton; using the V1 model runner instead.",
        "V1",
    ),
    _f(
        "auxiliary_layers",
        r"^Using (?:Eagle3 )?auxiliary layers from [\w ]+: ([(\[][\d, ]*[)\]])",
        "Using auxiliary layers from speculative config: (2, 4, 6)",
        [2, 4, 6],
        _numbers,
    ),
    _f(
        "weights_gib",
        r"^Model loading took ([\d.]+) GiB",
        "Model loading took 54.3 GiB memory and 31.9 seconds",
        54.3,
        float,
    ),
    _f("kv_gib", r"^Available KV cache memory: ([\d.]+) GiB", "Available KV cache memory: 41.10 GiB", 41.1, float),
    _f(
        "kv_tokens",
        r"KV cache size: ([\d,]+) tokens",
        "GPU KV cache size: 164,472 tokens, Maximum concurrency for 512 tokens per request: 321.24x",
        164472,
        _number,
    ),
    _f(
        "max_concurrency",
        r"^(?:.*, )?Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
        "GPU KV cache size: 164,472 tokens, Maximum concurrency for 512 tokens per request: 321.24x",
        321.24,
        float,
    ),
    _f(
        "engine_seconds",
        r"^init engine \(.*?\) took ([\d.]+) s",
        "init engine (profile, create kv cache, warmup model) took 0.58 s",
        0.58,
        float,
    ),
    _f(
        "url",
        r"^Starting vLLM (?:API )?server(?: \d+)? on (https?://\S+)",
        "Starting vLLM server on http://127.0.0.1:8000",
        "http://127.0.0.1:8000",
    ),
)

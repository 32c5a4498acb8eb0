# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start has come, and what the server tells of itself on the way. Data, as in patterns, and who reads it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import Line, seconds

YEAR = 366 * 86400


@dataclasses.dataclass(frozen=True)
class Stage:
    """A line that begins a stage. Without a name, it is named by the pattern's first group or all that matched.

    hint: where to look if the stage never ends.
    """

    name: str
    regex: re.Pattern[str]
    hint: str = ""
    sample: str = ""


@dataclasses.dataclass(frozen=True)
class Fact:
    """A line that tells a value: the pattern's group, converted. In the sample it is `value`."""

    name: str
    regex: re.Pattern[str]
    convert: Callable[[str], Any]
    sample: str
    value: Any


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def _s(name: str, regex: str, sample: str, hint: str = "") -> Stage:
    return Stage(name, re.compile(regex), hint, sample)


def _f(name: str, regex: str, convert: Callable[[str], Any], sample: str, value: Any) -> Fact:
    return Fact(name, re.compile(regex), convert, sample, value)


_ENGINE = (
    "Initializing a V1 LLM engine (v0.32.0) with config: model='/srv/models/target', speculative_config="
    "SpeculativeConfig(method='dflash', model='/srv/models/draft', num_spec_tokens=7), tokenizer='/srv/models/target'"
)
_FOLLOWER = "Launching vLLM (v0.32.0) headless multiproc executor, with head node address 192.0.2.1:29501 for torch.distributed process group."
_WORLD = "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:51111 backend=nccl"
_RAY = "2026-12-01 07:39:24,401\tINFO scripts.py:1234 -- Local node IP: 192.0.2.2"
_RAY_UP = "2026-12-01 07:39:30,680\tSUCC scripts.py:1251 -- Ray runtime started."
_CACHE = "GPU KV cache size: 164,472 tokens, Maximum concurrency for 512 tokens per request: 321.24x"

STAGES = (
    _s("waiting for the head", r"^Waiting for the head at ", "Waiting for the head at 192.0.2.1:29501: timed out"),
    _s("starting Ray", r"\tINFO scripts\.py:\d+ -- Local node IP: ", _RAY),
    _s("joined by Ray", r"\tSUCC scripts\.py:\d+ -- Ray runtime started\.", _RAY_UP),
    _s("reading the configuration", r"^non-default args: ", "non-default args: {'port': 8000}"),
    _s("starting the engine", r"^Initializing a V1 LLM engine", _ENGINE),
    _s("starting the engine", r"^Launching vLLM \(v\S+\) headless multiproc executor", _FOLLOWER),
    _s(
        "waiting for the GPUs of all hosts",
        r"^Waiting for creating a placement group ",
        "Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1.0}, {'GPU': 1.0}].",
        "Ray has not as many GPUs as the workers need: a host has not joined, as its own log tells, or shows fewer GPUs to its server.",
    ),
    _s(
        "joining the workers",
        r"^world_size=\d+ rank=\d+|^vLLM is using nccl",
        _WORLD,
        "The workers may be unable to reach each other: within a host try NCCL_P2P_DISABLE=1; across hosts see that"
        " NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME and VLLM_HOST_IP name the right network, that all of them were started, and that"
        " nothing filters --master-port and the ports above it.",
    ),
    _s(
        "loading the weights",
        r"^Starting to load model |^Loading [\w ]*checkpoint shards:",
        "Starting to load model /srv/models/target...",
        "Slow storage? Compare what `iostat` or `nfsiostat` shows with the size of the model.",
    ),
    _s("loading the drafter", r"^Loading drafter model", "Loading drafter model..."),
    _s(
        "compiling",
        r"^(?:Using cache directory: .* for vLLM's torch\.compile|Dynamo bytecode transform time)",
        "Using cache directory: /var/cache/vllm/torch_compile_cache/4f/rank_0_0 for vLLM's torch.compile",
        "The first compilation takes minutes; later starts use its cache.",
    ),
    _s(
        "sizing the KV cache",
        r"^Available KV cache memory: |^\w+ KV cache size: ",
        "Available KV cache memory: 41.10 GiB",
    ),
    _s(
        "capturing CUDA graphs",
        r"^Capturing [\w ]*CUDA graphs?\b",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67 [00:00<?, ?it/s]",
    ),
    _s("starting the HTTP server", r"^Starting vLLM (?:API )?server", "Starting vLLM server on http://127.0.0.1:8000"),
)

PERCENT = re.compile(r"^(?:Loading [\w ]*checkpoint shards|Capturing [\w ]*CUDA graphs[^:]*):\s+(\d+)%")

FACTS = (
    _f("version", r"^[ ▄█▀]+version (\d\S*)", str, " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0", "0.32.0"),
    _f("version", r"^(?:Initializing a V1 LLM engine \(v|vLLM API server version )(\d[^\s)]*)", str, _ENGINE, "0.32.0"),
    _f("version", r"^Launching vLLM \(v(\d[^\s)]*)\) headless", str, _FOLLOWER, "0.32.0"),
    _f("target", r"^Initializing .*? config: model='([^']+)'", str, _ENGINE, "/srv/models/target"),
    _f(
        "drafter",
        r"^Initializing .*?SpeculativeConfig\(method='\w+', model='([^']+)'",
        str,
        _ENGINE,
        "/srv/models/draft",
    ),
    _f("speculative_method", r"^Initializing .*?SpeculativeConfig\(method='(\w+)'", str, _ENGINE, "dflash"),
    _f("num_speculative_tokens", r"^Initializing .*?SpeculativeConfig\(.*?num_spec_tokens=(\d+)", int, _ENGINE, 7),
    _f("max_model_len", r"^Using max model len (\d+)", int, "Using max model len 512", 512),
    _f("world_size", r"^world_size=(\d+) rank=", int, _WORLD, 2),
    _f("backend", r"^world_size=\d+ rank=.* backend=(\w+)", str, _WORLD, "nccl"),
    _f(
        "attention_backend",
        r"^Using (\w+) (?:attention )?backend\b",
        str,
        "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']",
        "FLASH_ATTN",
    ),
    _f(
        "runner",
        r"^(?:Model Runner V2 .*; using the |Using )(V\d) [Mm]odel [Rr]unner",
        str,
        "Model Runner V2 requires Triton; using the V1 model runner instead.",
        "V1",
    ),
    _f(
        "auxiliary_layers",
        r"^Using (?:Eagle3 )?auxiliary layers from [\w ]+: ([(\[][\d, ]*[)\]])",
        _numbers,
        "Using auxiliary layers from speculative config: (2, 4, 6)",
        [2, 4, 6],
    ),
    _f(
        "weights_gib",
        r"^Model loading took ([\d.]+) GiB",
        float,
        "Model loading took 54.3 GiB memory and 31.9 seconds",
        54.3,
    ),
    _f("kv_gib", r"^Available KV cache memory: ([\d.]+) GiB", float, "Available KV cache memory: 41.10 GiB", 41.1),
    _f("kv_tokens", r"^\w+ KV cache size: ([\d,]+) tokens", _number, _CACHE, 164472),
    _f(
        "max_concurrency",
        r"^.{0,60}Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
        float,
        _CACHE,
        321.24,
    ),
    _f(
        "engine_seconds",
        r"^init engine \(.*?\) took ([\d.]+) s",
        float,
        "init engine (profile, warmup model) took 0.58 s",
        0.58,
    ),
    _f(
        "url",
        r"^Starting vLLM (?:API )?server(?: \d+)? on (https?://\S+)",
        str,
        "Starting vLLM server on http://[::1]:80",
        "http://[::1]:80",
    ),
)

TELLING = [*(s.regex for s in STAGES), *(f.regex for f in FACTS), PERCENT]


class Progress:
    """The stages passed, with their times, and the facts told."""

    def __init__(self, stages: Sequence[Stage] = (), vllm: bool = True) -> None:
        self.vllm = vllm
        self.stages: list[dict[str, Any]] = []
        self.percent: int | None = None
        self.facts: dict[str, Any] = {}
        self._known = [*stages, *(STAGES if vllm else ())]
        self.stamp = ""
        """Of the last line that had one."""

    def dump(self) -> list[Any]:
        return [self.stages, self.percent, self.facts, self.stamp]

    def load(self, known: list[Any]) -> None:
        self.stages, self.percent, self.facts, self.stamp = known

    def restart(self, stamp: str) -> None:
        self.load([[], None, {}, stamp])

    def see(self, line: Line, now: float) -> None:
        for stage in self._known:
            match = stage.regex.search(line.text)
            if match:
                self.enter(stage.name or (match[1] if match.re.groups else match[0]) or "", now)
                break
        if self.vllm:
            percent = PERCENT.match(line.text)
            if percent:
                self.percent = int(percent[1])
            for fact in FACTS:
                if fact.name not in self.facts:
                    match = fact.regex.match(line.text)
                    if match:
                        self.facts[fact.name] = fact.convert(match[1])

    def enter(self, name: str, now: float) -> None:
        """A stage begins, if it has not begun before: workers announce the same one each."""
        if not any(s["name"] == name for s in self.stages):
            self.percent = None
            self.stages.append({"name": name, "stamp": self.stamp, "now": now})

    @property
    def stage(self) -> str:
        return str(self.stages[-1]["name"]) if self.stages else ""

    @property
    def hint(self) -> str:
        """Where to look if the present stage never ends."""
        return next((s.hint for s in self._known if s.name == self.stage), "") if self.stage else ""

    def durations(self, now: float) -> list[dict[str, Any]]:
        """The stages with the seconds that each took: by the log's own clock, or as they were seen where it has none."""
        shown = []
        ends: list[dict[str, Any] | None] = [*self.stages[1:], None]
        for stage, end in zip(self.stages, ends):
            took = (end["now"] if end else now) - stage["now"]
            begun, ended = seconds(stage["stamp"]), seconds(end["stamp"]) if end else None
            if begun is not None and ended is not None:
                took = (ended - begun) % YEAR
            if stage["name"] != "ready":
                shown.append({"name": stage["name"], "seconds": round(max(took, 0.0), 1)})
        return shown

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vLLM command line, read as vLLM reads it, however the server was started."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from typing import Any

MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
ALIASES = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dpa": "data-parallel-address",
    "dpl": "data-parallel-size-local",
    "dpn": "data-parallel-rank",
    "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "r": "node-rank",
    "q": "quantization",
    "sc": "speculative-config",
    "cc": "compilation-config",
    "ac": "attention-config",
    "O": "optimization-level",
}
KNOWN = (
    "api-key", "attention-backend", "config", "config-format", "data-parallel-address", "data-parallel-backend",
    "data-parallel-rank", "data-parallel-size", "data-parallel-size-local", "data-parallel-start-rank", "disable-log-stats",
    "distributed-executor-backend", "dtype", "enable-prefix-caching", "headless", "hf-token", "host", "kv-cache-dtype",
    "master-addr", "master-port", "max-model-len", "max-num-batched-tokens", "max-num-seqs", "model", "model-impl",
    "no-enable-prefix-caching", "nnodes", "node-rank", "pipeline-parallel-size", "port", "quantization", "quantization-config",
    "revision", "served-model-name", "spec-method", "spec-model", "spec-tokens", "speculative-config", "ssl-certfile",
    "tensor-parallel-size", "tokenizer", "tokenizer-mode", "tokenizer-revision", "trust-remote-code", "uds",
)  # fmt: skip
"""Flags that somebody looks for. vLLM takes the beginning of a name for the name, and so does long_name: what two begin with it refuses."""
SEVERAL = (
    "allowed-headers", "allowed-media-domains", "allowed-methods", "allowed-origins", "api-key", "collect-detailed-traces",
    "cpu-offload-params", "cudagraph-capture-sizes", "ignore-patterns", "kv-cache-dtype-skip-layers", "logits-processors",
    "lora-modules", "lora-target-modules", "middleware", "numa-bind-cpus", "numa-bind-nodes", "offload-params",
    "served-model-name", "sleep-preserve-parameter-names",
)  # fmt: skip
"""Flags that take several values; of all others a second one is the model."""
SWITCH = re.compile(r"(?:no|enable|enforce|trust)-|disable-(?!access-log-for)|headless$")
"""Flags that take no value, so that the word after them is the model."""
WORDS = ("api-key", "hf-token", "served-model-name")
"""Flags whose values are words, even where they look like numbers or JSON."""
PARTS = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
"""Flags that are keys of the speculative config."""
DEEPEST = 32
"""Levels of all flags together, by dotted names and JSON alike: no server is told more, and Ansible could not follow whatever else is there."""
LONGEST = 300  # digits of a number: of some thousands Python makes none, and refuses all that is told along with it
STRING = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?\Z)', re.DOTALL)


def words_of_server(argv: Sequence[str]) -> list[str] | None:
    """What a server was told; None if this is not the command line of one."""
    for at, word in enumerate(argv[:-1]):
        if os.path.basename(word) in ("vllm", "vllm.entrypoints.cli.main") and argv[at + 1] == "serve":
            return list(argv[at + 2 :])
    for at, word in enumerate(argv):
        if word in MODULES and argv[at - 1] == "-m":
            return list(argv[at + 1 :])
    return None


def long_name(flag: str) -> str:
    """The whole name of a flag, without its hyphens and what is put behind it: --api-k=x is api-key, and -tp tensor-parallel-size."""
    name = flag.partition("=")[0]
    if not name.startswith("--"):
        return ALIASES.get(name.lstrip("-"), name.lstrip("-"))
    name = name[2:].partition(".")[0].replace("_", "-")
    begun = [known for known in KNOWN if known.startswith(name)]
    return name if name in KNOWN or len(begun) != 1 else begun[0]


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The model and the flags, by their long names with hyphens.

    A flag without a value is true, and one that begins with no- false. Numbers and JSON are read; what is said twice counts as said
    last. A dotted name, such as --speculative-config.method, puts a value into a dictionary.
    """
    model, flags = "", {}  # type: str, dict[str, Any]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            model = model or word
            continue
        given, equals, value = word.partition("=")
        path, name = given.partition(".")[2], long_name(given)
        values = [value] if equals else []
        while not equals and at < len(words) and not _is_flag(words[at]):
            values.append(words[at])
            at += 1
        if not equals and not model and (values if SWITCH.match(name) else values[1:] if name not in SEVERAL else ()):
            model = values.pop()
        _put(flags, name, path, values)
    told = flags.get("speculative-config", {})
    if isinstance(told, dict) and set(PARTS) & set(flags):
        flags["speculative-config"] = {**told, **{key: flags.pop(name) for name, key in PARTS.items() if name in flags}}
    return model or str(flags.get("model", "")), flags


def _is_flag(word: str) -> bool:
    """A negative number is none."""
    return word.startswith("-") and not _is_number(word) and word != "-"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _put(flags: dict[str, Any], name: str, path: str, values: list[str]) -> None:
    # The flags are a level themselves, a key of the speculative config gets one more, and several values are a list.
    parts = path.split(".", DEEPEST - 4) if path else []
    value: Any = values or True
    if len(values) == 1:
        value = values[0] if name in WORDS else read(values[0], DEEPEST - 2 - len(parts))
    if not values and name.startswith("no-"):
        name, value = name[3:], False
    if not parts:
        flags[name] = value
        return
    place = flags.get(name)
    if not isinstance(place, dict):
        place = flags[name] = {}
    *parents, last = parts
    for parent in parents:
        if not isinstance(place.get(parent), dict):
            place[parent] = {}
        place = place[parent]
    place[last] = value


def read(text: str, deepest: int = DEEPEST) -> Any:
    """What a text is as JSON, and the text itself where it is none or has more levels. What is no finite number stays text, as in JSON."""
    if _levels(text) > deepest:
        return text
    try:
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=str)
    except ValueError:
        return text


def _levels(text: str) -> int:
    """How deep a JSON text is nested, found without following it."""
    level = most = 0
    for one in STRING.sub("", text):
        if one in "[{":
            level += 1
            most = max(most, level)
        elif one in "]}":
            level -= 1
    return most


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _int(text: str) -> int | str:
    return int(text) if len(text) <= LONGEST else text

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vLLM command line, read as vLLM reads it, however the server was started."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
ALIASES = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "r": "node-rank",
    "q": "quantization",
    "sc": "speculative-config",
    "cc": "compilation-config",
    "ac": "attention-config",
    "O": "optimization-level",
}
SEVERAL = (
    "served-model-name",
    "api-key",
    "lora-modules",
    "middleware",
    "allowed-origins",
    "allowed-methods",
    "allowed-headers",
)
"""Flags that take several values; of all others a second one is the model."""
DEEPEST = 128
"""Levels of a dotted name, and brackets of a JSON text: no server is told more, and Python could not follow whatever else is there."""


def words_of_server(argv: Sequence[str]) -> list[str] | None:
    """What a server was told; None if this is not the command line of one."""
    for at, word in enumerate(argv[:-1]):
        if os.path.basename(word) in ("vllm", "vllm.entrypoints.cli.main") and argv[at + 1] == "serve":
            return list(argv[at + 2 :])
    for at, word in enumerate(argv):
        if word in MODULES and argv[at - 1] == "-m":
            return list(argv[at + 1 :])
    return None


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
        name, equals, value = word.lstrip("-").partition("=")
        values = [value] if equals else []
        while not equals and at < len(words) and not _is_flag(words[at]):
            values.append(words[at])
            at += 1
        name, _dot, path = name.partition(".")
        name = ALIASES.get(name, name.replace("_", "-")) if not word.startswith("--") else name.replace("_", "-")
        if len(values) > 1 and name not in SEVERAL and not model:
            model = values.pop()
        _put(flags, name, path, values)
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
    value: Any = True if not values else read(values[0]) if len(values) == 1 else values
    if not values and name.startswith("no-"):
        name, value = name[3:], False
    if not path:
        flags[name] = value
        return
    place = flags.get(name)
    if not isinstance(place, dict):
        place = flags[name] = {}
    *parents, last = path.split(".", DEEPEST)
    for parent in parents:
        if not isinstance(place.get(parent), dict):
            place[parent] = {}
        place = place[parent]
    place[last] = value


def read(text: str) -> Any:
    """What a text is as JSON, and the text itself where it is none."""
    if text.count("[") + text.count("{") > DEEPEST:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text

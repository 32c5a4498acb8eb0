# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the loader makes of a config.json, by the rules of transformers 5 (Qwen3Config) and of vLLM's reader of speculators configs.

The rules are compared with the real classes over a table of files in tests/unit/drafter/effective_measured.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats

SLIDING, FULL = "sliding_attention", "full_attention"

# Qwen3Config's own defaults: what a missing key silently becomes.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "layer_types": None,
}
_NULLABLE = frozenset({"num_key_value_heads", "sliding_window"})
_RENAMED = {
    "mamba": "linear_attention",
    "attention": FULL,
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
WORDS = frozenset(
    (
        FULL,
        SLIDING,
        "chunked_attention",
        "window_attention",
        "indexed_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
        "minimax_m3_sparse",
        "conv",
        "moe",
        "hybrid",
        "hybrid_sliding",
        "linear_attention",
    )
)


@dataclasses.dataclass(frozen=True)
class Effective:
    """values: what the config object will hold. refusal: the fact that makes the loader refuse the file, and why."""

    values: dict[str, Any]
    refusal: tuple[str, str] | None = None


def predict(config: Mapping[str, Any], form: formats.Format) -> Effective:
    if form is formats.SPECULATORS:
        return _speculators(config)
    return _qwen3(config)


def _qwen3(config: Mapping[str, Any]) -> Effective:
    values = {fact: config.get(fact, default) for fact, default in DEFAULTS.items()}
    for fact, value in values.items():
        wrong = _wrong_type(fact, value)
        if wrong:
            return Effective(values, (fact, wrong))
    if not values["use_sliding_window"]:
        values["sliding_window"] = None
    if values["num_key_value_heads"] is None:
        values["num_key_value_heads"] = values["num_attention_heads"]
    if values["layer_types"] is None:
        window, start = values["sliding_window"], values["max_window_layers"]
        values["layer_types"] = [
            SLIDING if window is not None and i >= start else FULL for i in range(values["num_hidden_layers"])
        ]
    return _validated(values)


def _speculators(config: Mapping[str, Any]) -> Effective:
    """vLLM keeps transformer_layer_config as it is: nothing dropped, nothing filled in but what its model asks for."""
    section = config.get("transformer_layer_config")
    layer = section if isinstance(section, dict) else {}
    values = {fact: layer.get(fact) for fact in DEFAULTS}
    if values["head_dim"] is None and formats.is_int(values["hidden_size"]) and values["num_attention_heads"]:
        values["head_dim"] = values["hidden_size"] // values["num_attention_heads"]
    if values["layer_types"] is not None:
        if _wrong_type("layer_types", values["layer_types"]):
            return Effective(values, ("layer_types", "it is no list of words"))
        return _validated(values)
    return Effective(values)


def _validated(values: dict[str, Any]) -> Effective:
    words = [_RENAMED.get(word, word) for word in values["layer_types"]]
    values["layer_types"] = words
    unknown = sorted(set(words) - WORDS)
    if unknown:
        return Effective(values, ("layer_types", f"{unknown[0]!r} is no kind of layer"))
    if values["num_hidden_layers"] is not None and len(words) != values["num_hidden_layers"]:
        return Effective(values, ("layer_types", f"{len(words)} words for {values['num_hidden_layers']} layers"))
    return Effective(values)


def _wrong_type(fact: str, value: Any) -> str | None:
    if fact == "layer_types":
        listed = value is None or (isinstance(value, list) and all(isinstance(word, str) for word in value))
        return None if listed else "it is no list of words"
    if fact == "use_sliding_window":
        return None if isinstance(value, bool) else "it is neither true nor false"
    if value is None and fact in _NULLABLE:
        return None
    return None if formats.is_int(value) else "it is no whole number"


def windows(config: Mapping[str, Any], form: formats.Format, effective: Effective) -> list[Any]:
    """The window of every drafter layer as the engine resolves it: a number, or None for full attention.

    A sliding layer without a window is MISSING: the engine refuses to start.
    """
    section = config.get("dflash_config")
    nested = section if form is not formats.SPECULATORS and isinstance(section, dict) else {}
    types = effective.values["layer_types"]
    layers = effective.values["num_hidden_layers"]
    count = layers if formats.is_int(layers) else len(types or ())
    window = nested.get("swa_window_size", effective.values["sliding_window"])
    if types is None or (nested.get("use_swa") and SLIDING not in types):
        sliding = [bool(nested.get("use_swa"))] * count
    else:
        sliding = [word == SLIDING for word in types]
    return [(formats.MISSING if window is None else window) if slides else None for slides in sliding]

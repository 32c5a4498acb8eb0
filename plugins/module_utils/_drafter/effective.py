# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the loader makes of a config.json: keys it drops, defaults it fills in, files it refuses.

The rules are those of transformers 5 (Qwen3Config) and of vLLM's reader of speculators configs. A table of files measured
with the real classes is kept with the tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, is_int

SLIDING, FULL = "sliding_attention", "full_attention"

# Qwen3Config's own defaults: what a missing key silently becomes.
DEFAULTS: Mapping[str, Any] = {
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
ROPE_THETA, VLLM_ROPE_THETA = 10000.0, 1000000.0
_Type = tuple[Callable[[Any], bool], str]
_WHOLE: _Type = (is_int, "a whole number")
_WHOLE_OR_NULL: _Type = (lambda value: value is None or is_int(value), "a whole number or null")
_TRUTH: _Type = (lambda value: isinstance(value, bool), "true or false")
_FRACTION: _Type = (lambda value: isinstance(value, float), "a number with a fraction")
_TYPES: Mapping[str, _Type] = {
    **{fact: _WHOLE for fact, default in DEFAULTS.items() if is_int(default)},
    **{fact: _WHOLE_OR_NULL for fact in ("num_key_value_heads", "sliding_window", "pad_token_id", "bos_token_id")},
    **{fact: _TRUTH for fact in ("use_sliding_window", "use_cache", "tie_word_embeddings", "attention_bias")},
    **{fact: _FRACTION for fact in ("initializer_range", "rms_norm_eps")},
    "attention_dropout": (lambda value: isinstance(value, float) or is_int(value), "a number"),
    "eos_token_id": (
        lambda value: value is None or is_int(value) or (isinstance(value, list) and all(map(is_int, value))),
        "a whole number, a list of them or null",
    ),
    "hidden_act": (lambda value: isinstance(value, str), "a word"),
    "rope_parameters": (lambda value: value is None or isinstance(value, dict), "a section or null"),
}
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
_MOST_LAYERS = 10_000  # beyond it a list of layers would only fill the memory


@dataclasses.dataclass(frozen=True)
class Effective:
    """values: what the config object will hold. refusal: the key for which the loader refuses the file, and why."""

    values: dict[str, Any]
    refusal: tuple[str, str] | None = None


def predict(config: Mapping[str, Any], form: formats.Format) -> Effective:
    return _speculators(config) if form is formats.SPECULATORS else _qwen3(config)


def _qwen3(config: Mapping[str, Any]) -> Effective:
    values = {fact: config.get(fact, default) for fact, default in DEFAULTS.items()}
    values["rope_theta"] = _rope_theta(config, ROPE_THETA)
    for name, (fits, kind) in _TYPES.items():
        if name in config and not fits(config[name]):
            return Effective(values, (name, f"it must be {kind}"))
    refusal = _refused_layers(values)
    if refusal:
        return Effective(values, refusal)
    if not values["use_sliding_window"]:
        values["sliding_window"] = None
    if values["num_key_value_heads"] is None:
        values["num_key_value_heads"] = values["num_attention_heads"]
    if values["layer_types"] is None:
        first = values["max_window_layers"] if values["sliding_window"] is not None else values["num_hidden_layers"]
        values["layer_types"] = [SLIDING if i >= first else FULL for i in range(values["num_hidden_layers"])]
    return _with_words(values)


def _speculators(config: Mapping[str, Any]) -> Effective:
    """vLLM keeps transformer_layer_config as it stands: nothing dropped, nothing filled in."""
    section = config.get("transformer_layer_config")
    layer = section if isinstance(section, dict) else {}
    values = {fact: layer.get(fact) for fact in DEFAULTS}
    values["rope_theta"] = _rope_theta(layer, VLLM_ROPE_THETA)
    refusal = _refused_layers(values)
    if refusal or values["layer_types"] is None:
        return Effective(values, refusal)
    return _with_words(values)


def _rope_theta(config: Mapping[str, Any], default: float) -> Any:
    section = config.get("rope_scaling") or config.get("rope_parameters")
    stated = section.get("rope_theta", MISSING) if isinstance(section, dict) else MISSING
    return config.get("rope_theta", default) if stated is MISSING else stated


def _refused_layers(values: Mapping[str, Any]) -> tuple[str, str] | None:
    types, layers = values["layer_types"], values["num_hidden_layers"]
    if is_int(layers) and layers > _MOST_LAYERS:
        return "num_hidden_layers", f"no drafter has {layers} layers"
    if types is not None and not (isinstance(types, list) and all(isinstance(word, str) for word in types)):
        return "layer_types", "they are no list of words"
    return None


def _with_words(values: dict[str, Any]) -> Effective:
    words, layers = [_RENAMED.get(word, word) for word in values["layer_types"]], values["num_hidden_layers"]
    unknown = sorted(set(words) - WORDS)
    if unknown:
        return Effective(values, ("layer_types", f"{unknown[0]} is no kind of layer"))
    if layers is not None and layers != len(words):
        return Effective(values, ("layer_types", f"there are {len(words)} for {layers} layers"))
    return Effective({**values, "layer_types": words})


def windows(config: Mapping[str, Any], form: formats.Format, effective: Effective) -> list[Any]:
    """The window of each drafter layer as the engine resolves it; None for full attention.

    MISSING stands for a layer that slides over no window: the engine refuses to start.
    """
    if effective.refusal:
        return []
    section = config.get("dflash_config")
    nested = section if form is not formats.SPECULATORS and isinstance(section, dict) else {}
    types, layers = effective.values["layer_types"], effective.values["num_hidden_layers"]
    forced = bool(nested.get("use_swa"))
    slides = [word == SLIDING for word in types or [FULL] * (layers if is_int(layers) else 0)]
    if forced and not any(slides):
        slides = [True] * len(slides)
    window = nested.get("swa_window_size", effective.values["sliding_window"])
    return [(MISSING if window is None else window) if sliding else None for sliding in slides]

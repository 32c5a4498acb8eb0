"""What the real classes make of some files. Run by a Python with vLLM, it prints effective_measured.py anew:

python tests/unit/drafter/measure_effective.py > tests/unit/drafter/effective_measured.py
"""

from __future__ import annotations

import copy
import logging
import pprint
from typing import Any

S, F = "sliding_attention", "full_attention"
FACTS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "layer_types",
)
USED = {"use_sliding_window": True, "sliding_window": 24}
SLIDES = {"layer_types": [S, S, S]}

# Keys of a config.json of three layers, besides those in measure().
QWEN3: list[dict[str, Any]] = [
    {},
    {**SLIDES, **USED},
    {**SLIDES, **USED, "max_window_layers": 3},
    {**SLIDES, **USED, "max_window_layers": 28},
    {**SLIDES, "sliding_window": 24, "use_sliding_window": False},
    {**SLIDES, "sliding_window": 24},
    {**SLIDES, "use_sliding_window": True},
    {**SLIDES, "use_sliding_window": False},
    {**SLIDES},
    {**SLIDES, "sliding_window": None, "use_sliding_window": True},
    {**SLIDES, "sliding_window": 0, "use_sliding_window": True},
    {**SLIDES, "sliding_window": -1, "use_sliding_window": True},
    {**SLIDES, "sliding_window": 4096, "use_sliding_window": True},
    {**SLIDES, "sliding_window": "24", "use_sliding_window": True},
    {**SLIDES, "sliding_window": 24.0, "use_sliding_window": True},
    {**SLIDES, "sliding_window": True, "use_sliding_window": True},
    {**SLIDES, "sliding_window": 24, "use_sliding_window": "false"},
    {**SLIDES, "sliding_window": 24, "use_sliding_window": 1},
    {**SLIDES, "sliding_window": 24, "use_sliding_window": None},
    {"layer_types": [S, S, F], **USED},
    {"layer_types": [S, S, F], "sliding_window": 24, "use_sliding_window": False},
    {"layer_types": [F, F, F], **USED},
    {"layer_types": [F, F, F], "sliding_window": None, "use_sliding_window": False},
    {"layer_types": None, **USED},
    {"layer_types": None, **USED, "max_window_layers": 0},
    {**USED},
    {**USED, "max_window_layers": 0},
    {**USED, "max_window_layers": 1},
    {**USED, "max_window_layers": 2},
    {**USED, "max_window_layers": 3},
    {**USED, "max_window_layers": -1},
    {**USED, "max_window_layers": None},
    {**USED, "max_window_layers": "3"},
    {"use_sliding_window": True, "max_window_layers": 0},
    {"sliding_window": 24, "use_sliding_window": False, "max_window_layers": 0},
    {"layer_types": [S, S], **USED},
    {"layer_types": [S, S, S, S], **USED},
    {"layer_types": [], **USED},
    {"layer_types": [S, S, "sliding"], **USED},
    {"layer_types": [S, S, "attention"], **USED},
    {"layer_types": ["attention", "attention", "attention"]},
    {"layer_types": ["mamba", S, S], **USED},
    {"layer_types": ["chunked_attention", S, S], **USED},
    {"layer_types": ["sparse", S, S], **USED},
    {"layer_types": "sliding_attention", **USED},
    {"layer_types": [1, 2, 3], **USED},
    {"num_hidden_layers": "3"},
    {"num_hidden_layers": 0},
    {"num_hidden_layers": None},
    {"num_key_value_heads": None},
    {"num_key_value_heads": "2"},
    {"head_dim": None},
    {"head_dim": 32.0},
    {"hidden_size": None},
    {"vocab_size": "512"},
    {"rms_norm_eps": 1},
    {"rms_norm_eps": "1e-06"},
    {"tie_word_embeddings": "false"},
    {"use_cache": 0},
    {"attention_bias": None},
    {"attention_dropout": 0},
    {"attention_dropout": "0"},
    {"initializer_range": 1},
    {"hidden_act": None},
    {"pad_token_id": "4"},
    {"eos_token_id": [2, 3]},
    {"eos_token_id": ["2"]},
    {"rope_theta": 10000000},
    {"rope_theta": None, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}},
    {"rope_theta": 7000.0, "rope_parameters": {"rope_type": "default"}},
    {"rope_theta": 7000.0, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}},
    {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 7000.0},
    {"rope_scaling": None, "rope_theta": 7000.0},
    {"rope_parameters": None},
    {"rope_parameters": "default"},
    {"dflash_config": {"mask_token_id": "3", "target_layer_ids": [900]}},
]
# Keys of a speculators config's transformer_layer_config of three layers.
SPECULATORS: list[dict[str, Any]] = [
    {},
    {**SLIDES, **USED},
    {**SLIDES, "sliding_window": 24, "use_sliding_window": False},
    {**SLIDES, "sliding_window": 24},
    {**SLIDES},
    {"layer_types": [S, S, F], "sliding_window": 24},
    {"layer_types": [S, S], "sliding_window": 24},
    {"layer_types": [S, S, "sliding"], "sliding_window": 24},
    {"sliding_window": "24", "use_sliding_window": "no"},
]


def complete(kind: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The whole config of a row."""
    layer = {"model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, **changes}
    if kind == "qwen3":
        return {"architectures": ["DFlashDraftModel"], **layer}
    return {
        "aux_hidden_state_layer_ids": [2, 4, 6],
        "mask_token_id": 3,
        "speculators_model_type": "dflash",
        "transformer_layer_config": layer,
    }


def measure(kind: str, changes: dict[str, Any]) -> dict[str, Any] | None:
    """What the loader holds; None if it refuses the file."""
    from transformers import AutoConfig
    from vllm.transformers_utils.configs.speculators import SpeculatorsConfig

    config = complete(kind, changes)
    try:
        if kind == "qwen3":
            loaded = AutoConfig.for_model(**config)
            theta = {"rope_theta": loaded.rope_parameters["rope_theta"]}
        else:
            loaded = SpeculatorsConfig(**SpeculatorsConfig.extract_transformers_pre_trained_config(config))
            theta = {}
    except Exception:
        return None
    return {**{fact: getattr(loaded, fact, None) for fact in FACTS}, **theta}


def row(kind: str, changes: dict[str, Any], measured: dict[str, Any] | None) -> str:
    """It as the file has it."""
    lines = pprint.pformat((kind, changes, measured), width=150, compact=True, sort_dicts=False).splitlines()
    return "\n".join(f"    {line}" for line in lines).replace(repr(S), "S").replace(repr(F), "F") + ","


def main() -> None:
    import transformers
    import vllm

    logging.disable(logging.CRITICAL)
    print(
        f'"""Measured with transformers {transformers.__version__} and vLLM {vllm.__version__}, by measure_effective.py."""'
    )
    print(f"\n# fmt: off\nS, F = {S!r}, {F!r}\nMEASURED = [")
    for kind, rows in (("qwen3", QWEN3), ("speculators", SPECULATORS)):
        for changes in rows:
            # What loads it adds to what it was given.
            print(row(kind, changes, measure(kind, copy.deepcopy(changes))))
    print("]")


if __name__ == "__main__":
    main()

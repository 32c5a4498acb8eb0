"""Published drafters in their right form: what their publishers serve, as far as it is known."""

from __future__ import annotations

import dataclasses
from typing import Any

from synthetic import F, S, shapes


@dataclasses.dataclass(frozen=True)
class Published:
    """deciding: for each key that decides, a value that spoils it."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, Any]
    spoilt: dict[str, Any]


def _legacy(
    layers: int,
    hidden: int,
    ffn: int,
    vocab: int,
    target_layers: int,
    block: int,
    mask: int,
    ids: list[int],
    **more: Any,
) -> dict[str, Any]:
    return {
        "architectures": ["DFlashDraftModel"],
        "attention_bias": False,
        "block_size": block,
        "dflash_config": {"mask_token_id": mask, "target_layer_ids": ids},
        "dtype": "bfloat16",
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "layer_types": [F] * layers,
        "max_position_embeddings": 262144,
        "max_window_layers": layers,
        "model_type": "qwen3",
        "num_attention_heads": 32,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "num_target_layers": target_layers,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 10000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": vocab,
        **more,
    }


def _nested(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same in the form of since June 2026: the block and the rope in sections."""
    made = {key: value for key, value in config.items() if key not in ("block_size", "rope_theta", "rope_scaling")}
    made["dflash_config"] = {"block_size": config["block_size"], **config["dflash_config"], **more}
    made["rope_parameters"] = {"rope_theta": config["rope_theta"], "rope_type": "default"}
    return made


def _speculators(
    block: int, mask: int, aux: list[int], draft_vocab: int, layer: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "architectures": ["DFlashSpeculator"],
        "aux_hidden_state_layer_ids": aux,
        "block_size": block,
        "draft_vocab_size": draft_vocab,
        "mask_token_id": mask,
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": block - 1}],
            "verifier": {"architectures": [], "name_or_path": "the/target"},
        },
        "speculators_model_type": "dflash",
        "transformer_layer_config": {"model_type": "qwen3", "rms_norm_eps": 1e-06, "rope_theta": 1000000, **layer},
        **more,
    }


def _mapped(tensors: dict[str, Any], draft_vocab: int, vocab: int, hidden: int) -> dict[str, Any]:
    """The tensors of a drafter that draws from a choice of the target's tokens."""
    return {
        **tensors,
        "lm_head.weight": [draft_vocab, hidden],
        "embed_tokens.weight": [vocab, hidden],
        "d2t": ("I64", [draft_vocab]),
    }


def _convolving(tensors: dict[str, Any], layers: int, hidden: int, vocab: int) -> dict[str, Any]:
    """A DFlash2 drafter's: 2 taps, groups of 16, a selector of rank 256."""
    made = dict(tensors)
    for i in range(layers):
        for conv in ("attention_conv", "mlp_conv"):
            made[f"layers.{i}.{conv}.base_kernel"] = [2, 2, hidden]
            made[f"layers.{i}.{conv}.kernel_projection.weight"] = [2 * 2 * hidden // 16, hidden]
    made["candidate_selector.hidden_projection.weight"] = [256, hidden]
    made["candidate_selector.predecessor_codebook"] = [vocab, 256]
    made["candidate_selector.successor_codebook"] = [vocab, 256]
    return made


QWEN36_27B_SHAPES = shapes(5, 5120, 17408, 32, 8, 128, ids=5)
QWEN36_27B = _legacy(
    5, 5120, 17408, 248320, 64, 16, 248070, [1, 16, 31, 46, 61],
    layer_types=[S, S, S, S, F], sliding_window=2048, use_sliding_window=True,
)  # fmt: skip
_QWEN35_RETRAIN = {"layer_types": [S] * 5 + [F], "sliding_window": 4096, "use_sliding_window": True}
_SPOILT = {
    "architectures": ["Qwen3ForCausalLM"],
    "dflash_config.mask_token_id": 7,
    "dflash_config.target_layer_ids": [0, 2, 4, 6, 8],
    "head_dim": 64,
    "hidden_size": 1024,
    "intermediate_size": 1000,
    "num_attention_heads": 16,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "block_size": 10,
}
_WINDOWED = {"layer_types": [F] * 5, "sliding_window": 1024, "use_sliding_window": False}
_EIGHT = {
    "dflash_config.target_layer_ids": [0, 1, 2, 3, 4, 5, 6, 7],
    "dflash_config.block_size": 10,
    "sliding_window": None,
}
_SPECULATORS = {
    "mask_token_id": 7,
    "aux_hidden_state_layer_ids": [1, 2, 3, 4, 5],
    "block_size": 16,
    "draft_vocab_size": 16000,
    "speculators_config.proposal_methods.0.speculative_tokens": 8,
    "transformer_layer_config.num_hidden_layers": 4,
    "transformer_layer_config.hidden_size": 1024,
}


def _without(spoilt: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in spoilt.items() if key not in keys}


PUBLISHED = (
    Published("z-lab/Qwen3.6-27B-DFlash", QWEN36_27B, QWEN36_27B_SHAPES, {**_SPOILT, **_WINDOWED, "rope_theta": 10000}),
    Published(
        "z-lab/Qwen3.6-35B-A3B-DFlash",
        _nested(_legacy(6, 2048, 6144, 248320, 40, 16, 248077, [1, 6, 11, 16, 22, 27, 32, 37], **_QWEN35_RETRAIN)),
        shapes(6, 2048, 6144, 32, 8, 128, ids=8),
        {**_without(_SPOILT, "block_size"), **_EIGHT, "layer_types": [F] * 6, "rope_parameters.rope_theta": 10000},
    ),
    Published(
        "z-lab/Qwen3.5-122B-A10B-DFlash",
        _nested(_legacy(6, 3072, 9216, 248320, 48, 16, 248077, [1, 7, 14, 20, 26, 32, 39, 45], **_QWEN35_RETRAIN)),
        shapes(6, 3072, 9216, 32, 8, 128, ids=8),
        {**_without(_SPOILT, "block_size"), **_EIGHT, "layer_types": [F] * 6},
    ),
    Published(
        "z-lab/Qwen3-8B-DFlash-b16",
        _legacy(5, 4096, 12288, 151936, 36, 16, 151669, [1, 9, 17, 25, 33], rope_theta=1000000),
        shapes(5, 4096, 12288, 32, 8, 128, ids=5),
        {**_SPOILT, "layer_types": [S] * 5},
    ),
    Published(
        "z-lab/Qwen3-4B-DFlash-b16",
        _legacy(5, 2560, 9728, 151936, 36, 16, 151669, [1, 9, 17, 25, 33], rope_theta=1000000),
        shapes(5, 2560, 9728, 32, 8, 128, ids=5),
        {**_SPOILT, "layer_types": [S] * 5},
    ),
    Published(
        "z-lab/gpt-oss-20b-DFlash",
        _legacy(8, 2880, 7680, 201088, 24, 8, 200000, [1, 6, 11, 16, 21], head_dim=64, num_attention_heads=64),
        shapes(8, 2880, 7680, 64, 8, 64, ids=5),
        {**_SPOILT, "head_dim": 128},
    ),
    Published(
        "z-lab/Qwen3.8-27B-DFlash2",
        _nested(
            _legacy(
                5, 5120, 17408, 248320, 64, 8, 248070, [5, 19, 33, 47, 61], architectures=["DFlash2DraftModel"],
                is_causal=False, layer_types=[S] * 5, sliding_window=2048, use_sliding_window=True,
            ),
            conv_group_size=16, conv_kernel_size=2, selector_rank=256, selector_top_k=16,
        ),
        _convolving(QWEN36_27B_SHAPES, 5, 5120, 248320),
        {
            **_without(_SPOILT, "block_size"),
            **_WINDOWED,
            "architectures": ["DFlashDraftModel"],
            "dflash_config.block_size": 16,
            "dflash_config.conv_group_size": 32,
            "dflash_config.conv_kernel_size": 3,
            "dflash_config.selector_rank": 128,
            "dflash_config.selector_top_k": 8,
            "is_causal": True,
            "vocab_size": 151936,
        },
    ),
    Published(
        "RedHatAI/Qwen3-8B-speculator.dflash",
        _speculators(
            8, 151669, [2, 10, 18, 26, 34], 32000,
            {
                "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "layer_types": [F] * 5,
                "max_position_embeddings": 40960, "num_attention_heads": 32, "num_hidden_layers": 5,
                "num_key_value_heads": 8, "vocab_size": 151936,
            },
        ),
        _mapped(shapes(5, 4096, 12288, 32, 8, 128, ids=5), 32000, 151936, 4096),
        {**_SPECULATORS, "transformer_layer_config.vocab_size": 32000},
    ),
    Published(
        "RedHatAI/DeepSeek-V4-Flash-speculator.dflash",
        _speculators(
            8, 128000, [3, 13, 23, 32, 42], 32000,
            {
                "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "layer_types": [S] * 5,
                "max_position_embeddings": 40960, "num_attention_heads": 32, "num_hidden_layers": 5,
                "num_key_value_heads": 8, "sliding_window": 2048, "vocab_size": 129280,
            },
            target_hidden_size=16384, hc_mult=4,
        ),
        _mapped(shapes(5, 4096, 12288, 32, 8, 128, ids=5, width=16384), 32000, 129280, 4096),
        {
            **_without(_SPECULATORS, "mask_token_id"),
            "target_hidden_size": 4096,
            "transformer_layer_config.sliding_window": 64,
            "transformer_layer_config.layer_types": [F] * 5,
        },
    ),
)  # fmt: skip

# Somebody's own, from a public issue: right, though its ids don't follow the formula, and in no catalogue.
OWN = Published(
    "own/Qwen3.5-35B-A3B-speculator",
    _speculators(
        8,
        248077,
        [1, 6, 11, 16, 22, 27, 32, 37],
        24576,
        {
            "head_dim": 256,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "layer_types": [S] * 5,
            "max_position_embeddings": 40960,
            "num_attention_heads": 16,
            "num_hidden_layers": 5,
            "num_key_value_heads": 2,
            "sliding_window": 2048,
            "vocab_size": 248320,
        },
        sliding_window_non_causal=False,
        sample_from_anchor=False,
    ),
    _mapped(shapes(5, 2048, 6144, 16, 2, 256, ids=8), 24576, 248320, 2048),
    {
        "aux_hidden_state_layer_ids": [1, 6, 11, 16, 22],
        "block_size": 16,
        "draft_vocab_size": 32000,
        "mask_token_id": 248320,
        "sliding_window_non_causal": "false",
        "speculators_config.proposal_methods.0.speculative_tokens": 8,
        "transformer_layer_config.head_dim": 128,
        "transformer_layer_config.layer_types": [S] * 4,
        "transformer_layer_config.sliding_window": None,
        "transformer_layer_config.vocab_size": 151936,
    },
)

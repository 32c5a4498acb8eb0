"""Drafters made of headers: real safetensors files, sparse where their tensors would be, and the configs that go with them."""

from __future__ import annotations

import copy
import json
import math
import struct
from pathlib import Path
from typing import Any

S, F = "sliding_attention", "full_attention"
SIZES = {"F32": 4, "BF16": 2, "U8": 1, "I64": 8}


def write_safetensors(path: Path, shapes: dict[str, Any]) -> None:
    """A safetensors file with these tensors: {name: shape} or {name: (dtype, shape)}. Its data is a hole in the file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, entry in shapes.items():
        dtype, shape = entry if isinstance(entry[0], str) else ("BF16", entry)
        start, end = end, end + math.prod(shape) * SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    with path.open("wb") as f:
        f.write(struct.pack("<Q", len(raw)) + raw)
        f.truncate(8 + len(raw) + end)


def shapes(
    layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, head: int, ids: int, width: int = 0
) -> dict[str, Any]:
    """The tensors of a DFlash drafter: 11 for each layer, fc and two norms."""
    found: dict[str, Any] = {
        "fc.weight": [hidden, ids * (width or hidden)],
        "hidden_norm.weight": [hidden],
        "norm.weight": [hidden],
    }
    for i in range(layers):
        layer = {
            "input_layernorm": [hidden],
            "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [heads * head, hidden],
            "self_attn.k_proj": [kv_heads * head, hidden],
            "self_attn.v_proj": [kv_heads * head, hidden],
            "self_attn.o_proj": [hidden, heads * head],
            "self_attn.q_norm": [head],
            "self_attn.k_norm": [head],
            "mlp.gate_proj": [ffn, hidden],
            "mlp.up_proj": [ffn, hidden],
            "mlp.down_proj": [hidden, ffn],
        }
        found.update({f"layers.{i}.{name}.weight": shape for name, shape in layer.items()})
    return found


def config(**changes: Any) -> dict[str, Any]:
    """A z-lab legacy config, right for TINY, with some keys changed; DROP as a value leaves one out, dots lead inwards."""
    made: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"],
        "block_size": 8,
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
        "eos_token_id": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 128,
        "layer_types": [S, S, S],
        "max_position_embeddings": 512,
        "max_window_layers": 3,
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "num_target_layers": 8,
        "pad_token_id": 4,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "sliding_window": 24,
        "use_sliding_window": True,
        "vocab_size": 512,
    }
    return changed(made, changes)


DROP = object()
TINY = shapes(layers=3, hidden=64, ffn=128, heads=4, kv_heads=2, head=32, ids=3)


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with some values changed. A key may lead inwards by dots, or by __ where it must be a word of Python."""
    made = copy.deepcopy(document)
    for dotted, value in changes.items():
        *way, last = dotted.replace("__", ".").split(".")
        place: Any = made
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is DROP:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return made


def drafter(directory: Path, config: Any, tensors: dict[str, Any] | None = None) -> Path:
    """A drafter on disk. The config may be a value, or text to be written as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config, indent=2) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    write_safetensors(directory / "model.safetensors", TINY if tensors is None else tensors)
    return directory


def target(directory: Path, **changes: Any) -> Path:
    """A target that goes with TINY: 8 layers, 512 tokens, a tokenizer that names a mask."""
    directory.mkdir(parents=True, exist_ok=True)
    made = {
        "model_type": "qwen3",
        "num_hidden_layers": 8,
        "hidden_size": 64,
        "vocab_size": 512,
        "eos_token_id": 2,
        "pad_token_id": 4,
    }
    (directory / "config.json").write_text(json.dumps(changed(made, changes)))
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>", "<|pad|>"]
    added = [{"id": number, "content": word, "special": True} for number, word in enumerate(words)]
    (directory / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "added_tokens": added, "model": {"vocab": {"a]": 5}}})
    )
    named = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>", "mask_token": "<|mask|>", "bos_token": None}
    (directory / "tokenizer_config.json").write_text(json.dumps(named))
    return directory

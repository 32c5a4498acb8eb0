# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each published format keeps what decides. Everything else speaks of facts by their canonical names.

A fact is canonical in z-lab's terms: target_layer_ids are the layers themselves (the engine adds one on their way), block_size counts the
anchor.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path


class _Missing:
    """The value of a key that isn't there, which is not the same as null."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()

_LAYERS = (
    "layer_types",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
)
_DFLASH = ("mask_token_id", "target_layer_ids", "block_size")
_DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
_TOP = (
    "architectures",
    "num_target_layers",
    "target_hidden_size",
    "draft_vocab_size",
    "is_causal",
    "quantization_config",
)


@dataclasses.dataclass(frozen=True)
class Format:
    """places: the paths where a fact may stand, the one to write it to first."""

    name: str
    places: Mapping[str, tuple[Path, ...]]
    shift: int = 0  # what the format adds to the ids of the target's layers


def _zlab(name: str, block_size: tuple[Path, ...]) -> Format:
    places: dict[str, tuple[Path, ...]] = {fact: ((fact,),) for fact in (*_LAYERS, *_TOP)}
    places.update({fact: (("dflash_config", fact), (fact,)) for fact in (*_DFLASH, *_DFLASH2)})
    places["block_size"] = block_size
    places["rope_theta"] = (("rope_theta",), ("rope_parameters", "rope_theta"))
    places["mask_token"] = (("dflash_config", "mask_token"),)
    places["num_speculative_tokens"] = (("num_speculative_tokens",),)
    places.update({fact: (("dflash_config", fact),) for fact in ("use_swa", "swa_window_size", "causal")})
    return Format(name, places)


_BLOCK_ON_TOP: tuple[Path, ...] = (("block_size",), ("dflash_config", "block_size"))
_BLOCK_NESTED: tuple[Path, ...] = (("dflash_config", "block_size"), ("block_size",))


def _speculators() -> Format:
    places: dict[str, tuple[Path, ...]] = {fact: (("transformer_layer_config", fact),) for fact in _LAYERS}
    places.update(
        {fact: ((fact,),) for fact in (*_TOP, *_DFLASH2, "mask_token_id", "block_size", "sample_from_anchor")}
    )
    places["target_layer_ids"] = (("aux_hidden_state_layer_ids",),)
    places["sliding_window_non_causal"] = (("sliding_window_non_causal",),)
    places["num_speculative_tokens"] = (("speculators_config", "proposal_methods", 0, "speculative_tokens"),)
    layer = "transformer_layer_config"
    places["rope_theta"] = ((layer, "rope_theta"), (layer, "rope_parameters", "rope_theta"))
    return Format("speculators", places, shift=1)


ZLAB_LEGACY = _zlab("zlab-legacy", _BLOCK_ON_TOP)
ZLAB_NESTED = _zlab("zlab-nested", _BLOCK_NESTED)
DFLASH2 = _zlab("dflash2", _BLOCK_NESTED)
MIMO = _zlab("mimo", _BLOCK_NESTED)
SPECULATORS = _speculators()
FORMATS = (ZLAB_LEGACY, ZLAB_NESTED, DFLASH2, MIMO, SPECULATORS)


def detect(config: Mapping[str, Any]) -> Format | None:
    """The format of a config; None if it isn't a DFlash drafter's."""
    if "speculators_model_type" in config or "speculators_config" in config:
        return SPECULATORS
    architectures = config.get("architectures")
    named = " ".join(map(str, architectures)) if isinstance(architectures, list) else ""
    section = config.get("dflash_config")
    if "DFlash" not in named and "dflash_config" not in config:
        return None
    nested = section if isinstance(section, dict) else {}
    if "DFlash2" in named or any(fact in nested for fact in _DFLASH2):
        return DFLASH2
    if "use_swa" in nested or "swa_window_size" in nested or "causal" in nested:
        return MIMO
    if "block_size" in nested and "block_size" not in config:
        return ZLAB_NESTED
    return ZLAB_LEGACY


def look(document: Any, path: Path) -> Any:
    """The value at a path, or MISSING."""
    for name in path:
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and isinstance(name, int) and 0 <= name < len(document):
            document = document[name]
        else:
            return MISSING
    return document


def places(config: Mapping[str, Any], form: Format, fact: str) -> tuple[Path, ...]:
    """Where the config has a fact; where the format would have it, if the config has it nowhere."""
    known = form.places.get(fact, ())
    return tuple(p for p in known if look(config, p) is not MISSING) or known[:1]


def read(config: Mapping[str, Any], form: Format, fact: str) -> Any:
    """A fact's value in canonical terms, or MISSING."""
    for path in places(config, form, fact)[:1]:
        return decode(form, fact, look(config, path))
    return MISSING


def decode(form: Format, fact: str, value: Any) -> Any:
    return _shifted(value, -form.shift) if fact == "target_layer_ids" else value


def encode(form: Format, fact: str, value: Any) -> Any:
    return _shifted(value, form.shift) if fact == "target_layer_ids" else value


def _shifted(ids: Any, by: int) -> Any:
    if by and isinstance(ids, list) and all(is_int(i) for i in ids):
        return [i + by for i in ids]
    return ids


def key(path: Path) -> str:
    return ".".join(map(str, path))


def is_int(value: Any) -> bool:
    """Whether a value is a whole number as transformers means it: true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def facts(config: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """Every fact that a config states, in canonical terms."""
    found = {fact: read(config, form, fact) for fact in form.places}
    return {fact: value for fact, value in found.items() if value is not MISSING}


def understand(values: Mapping[str, Any], form: Format) -> tuple[dict[str, Any], dict[Path, Any]]:
    """What a user asserts, as facts in canonical terms and as plain paths for the rest.

    A key may be nested or dotted, and a fact may be named as any format names it: it goes where this drafter's format keeps it.
    """
    known: dict[str, Any] = {}
    plain: dict[Path, Any] = {}
    for path, value in _flat(values, ()):
        owner = next((f for f in (form, *FORMATS) for p in f.places.items() if path in p[1]), None)
        if owner is None:
            plain[path] = value
            continue
        fact = next(fact for fact, paths in owner.places.items() if path in paths)
        if fact in form.places:
            known[fact] = decode(owner, fact, value)
        else:
            plain[path] = value
    return known, plain


def _flat(values: Mapping[str, Any], before: Path) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for name, value in values.items():
        steps: Path = tuple(int(s) if s.isdigit() else s for s in str(name).split("."))
        path = before + steps
        if isinstance(value, dict) and value and path != ("quantization_config",):
            found += _flat(value, path)
        else:
            found.append((path, value))
    return found

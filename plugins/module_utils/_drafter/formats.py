# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each published format keeps what decides. All other code speaks of facts by their canonical names.

A fact is canonical in z-lab's terms: target_layer_ids are the target's layers themselves, to which the engine adds one.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import NoSuchPlaceError, Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError


class _Missing:
    """The value of a key that isn't there, which is not the same as null."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()

_NUMBERS = (
    "sliding_window",
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
_LAYER = (*_NUMBERS, "layer_types", "use_sliding_window", "attention_bias")
_DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
_TOP = (
    "architectures",
    "model_type",
    "num_target_layers",
    "target_hidden_size",
    "draft_vocab_size",
    "is_causal",
    "quantization_config",
)
TRUTHS = (
    "use_sliding_window",
    "is_causal",
    "causal",
    "use_swa",
    "sliding_window_non_causal",
    "sample_from_anchor",
)
# What is no string, whatever a template made of it.
_TYPED = frozenset(
    (
        *_NUMBERS,
        *_DFLASH2,
        *TRUTHS,
        "attention_bias",
        "mask_token_id",
        "block_size",
        "num_speculative_tokens",
        "swa_window_size",
    )
)


@dataclasses.dataclass(frozen=True)
class Format:
    """places: the paths where a fact may stand, first the one to write it to. shift: what is added to layer ids."""

    name: str
    places: Mapping[str, tuple[Path, ...]]
    shift: int = 0


def _zlab(name: str, *block_size: Path) -> Format:
    places: dict[str, tuple[Path, ...]] = {fact: ((fact,),) for fact in (*_LAYER, *_TOP, "num_speculative_tokens")}
    nested = (*_DFLASH2, "mask_token", "use_swa", "swa_window_size", "causal")
    places.update({fact: (("dflash_config", fact),) for fact in nested})
    places.update({fact: (("dflash_config", fact), (fact,)) for fact in ("mask_token_id", "target_layer_ids")})
    places["block_size"] = block_size
    places["rope_theta"] = (("rope_parameters", "rope_theta"), ("rope_scaling", "rope_theta"), ("rope_theta",))
    return Format(name, places)


def _speculators() -> Format:
    layer = "transformer_layer_config"
    places: dict[str, tuple[Path, ...]] = {fact: ((layer, fact),) for fact in (*_LAYER, "model_type")}
    top = (*_TOP, *_DFLASH2, "mask_token_id", "block_size", "sample_from_anchor", "sliding_window_non_causal")
    places.update({fact: ((fact,),) for fact in top if fact != "model_type"})
    places["target_layer_ids"] = (("aux_hidden_state_layer_ids",),)
    places["num_speculative_tokens"] = (("speculators_config", "proposal_methods", 0, "speculative_tokens"),)
    places["rope_theta"] = ((layer, "rope_parameters", "rope_theta"), (layer, "rope_theta"))
    return Format("speculators", places, shift=1)


ZLAB_LEGACY = _zlab("zlab-legacy", ("block_size",), ("dflash_config", "block_size"))
ZLAB_NESTED = _zlab("zlab-nested", ("dflash_config", "block_size"), ("block_size",))
DFLASH2 = _zlab("dflash2", ("dflash_config", "block_size"), ("block_size",))
MIMO = _zlab("mimo", ("dflash_config", "block_size"), ("block_size",))
SPECULATORS = _speculators()
FORMATS = (ZLAB_LEGACY, ZLAB_NESTED, DFLASH2, MIMO, SPECULATORS)


def detect(config: Mapping[str, Any]) -> Format | None:
    """The format of a config; None if it isn't a DFlash drafter's."""
    if "speculators_model_type" in config or "speculators_config" in config:
        return SPECULATORS if config.get("speculators_model_type", "dflash") in ("dflash", "dflash2") else None
    named = str(config.get("architectures"))
    if "DFlash" not in named and "dflash_config" not in config:
        return None
    section = config.get("dflash_config")
    nested = section if isinstance(section, dict) else {}
    if "DFlash2" in named or any(fact in nested for fact in _DFLASH2):
        return DFLASH2
    if any(fact in nested for fact in ("use_swa", "swa_window_size", "causal")):
        return MIMO
    return ZLAB_NESTED if "block_size" in nested and "block_size" not in config else ZLAB_LEGACY


def look(document: Any, path: Path) -> Any:
    """The value at a path, or MISSING."""
    for name in path:
        if isinstance(document, list) and isinstance(name, int):
            document = document[name] if name < len(document) else MISSING
        else:
            document = document.get(name, MISSING) if isinstance(document, dict) else MISSING
    return document


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path of a document; sections on the way that are absent or null are made."""
    place: Any = document
    for name, following in zip(path, (*path[1:], None)):
        fits = isinstance(place, dict) if isinstance(name, str) else isinstance(place, list) and name < len(place)
        if not fits:
            raise NoSuchPlaceError(path)
        if following is None:
            place[name] = value
        elif isinstance(place, dict) and place.get(name) is None:
            place[name] = {}
        place = place[name]


def places(config: Mapping[str, Any], form: Format, fact: str) -> tuple[Path, ...]:
    """Where the config has a fact; where the format would have it, if the config has it nowhere."""
    known = form.places[fact]
    present = tuple(path for path in known if look(config, path) is not MISSING)
    if fact == "rope_theta" and not present:
        # Newer files have a section for it, older ones a key on top.
        return tuple(path for path in known if look(config, path[:-1]) not in (MISSING, None))[:1] or known[-1:]
    return present or known[:1]


def read(config: Mapping[str, Any], form: Format, fact: str) -> Any:
    """A fact's value in canonical terms, or MISSING, as for a fact that the format doesn't have."""
    if fact not in form.places:
        return MISSING
    return decode(form, fact, look(config, places(config, form, fact)[0]))


def facts(config: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """Every fact that a config states."""
    found = {fact: read(config, form, fact) for fact in form.places}
    return {fact: value for fact, value in found.items() if value is not MISSING}


def decode(form: Format, fact: str, value: Any) -> Any:
    return _shifted(value, -form.shift) if fact == "target_layer_ids" else value


def encode(form: Format, fact: str, value: Any) -> Any:
    return _shifted(value, form.shift) if fact == "target_layer_ids" else value


def _shifted(ids: Any, by: int) -> Any:
    return [i + by for i in ids] if isinstance(ids, list) and all(is_int(i) for i in ids) else ids


def key(path: Path) -> str:
    return ".".join(map(str, path))


def is_int(value: Any) -> bool:
    """Whether a value is a whole number as transformers means it: true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Whether two values are written alike: true is not 1, and 3.0 is not 3."""
    if one is MISSING or other is MISSING:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def spelt(value: Any) -> Any:
    """The whole number or the truth that a string spells, such as 24 for "24", or MISSING."""
    if not isinstance(value, str):
        return MISSING
    if re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    return {"true": True, "false": False}.get(value.lower(), MISSING)


def understand(values: Mapping[str, Any], form: Format) -> tuple[dict[str, Any], dict[Path, Any]]:
    """What somebody asserts, as facts in canonical terms, and by path what is no fact.

    A key may be nested or dotted, and a fact may be named as any format names it: it goes where this format keeps it.
    """
    known: dict[str, Any] = {}
    plain: dict[Path, Any] = {}
    for path, value in _flat(values, ()):
        owner, fact = _owner(path, form)
        if fact not in form.places:
            whole_of = next((path[:i] for i in range(1, len(path)) if _owner(path[:i], form)[1]), None)
            if whole_of:
                raise RefusedError(f"{key(path)} can't be asserted by itself; assert the whole of {key(whole_of)}")
            said = plain.setdefault(path, value)
        else:
            if fact in _TYPED and spelt(value) is not MISSING:
                value = spelt(value)
            value = decode(owner, fact, value)
            said = known.setdefault(fact, value)
        if not same(said, value):
            raise RefusedError(f"{key(path)} is asserted twice, once as {said} and once as {value}")
    return known, plain


def _owner(path: Path, form: Format) -> tuple[Format, str]:
    """The format that has a fact at a path, this one before the others, and the fact; an empty name if none has."""
    known = ((f, fact) for f in (form, *FORMATS) for fact, paths in f.places.items() if path in paths)
    return next(known, (form, ""))


def _flat(values: Mapping[str, Any], before: Path) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for name, value in values.items():
        if not all(str(name).split(".")):
            raise RefusedError(f"{name!r} can't be asserted: it is no key")
        steps = (int(step) if re.fullmatch(r"[0-9]{1,4}", step) else step for step in str(name).split("."))
        path = (*before, *steps)
        if isinstance(value, dict) and value and not _owner(path, ZLAB_LEGACY)[1]:
            found += _flat(value, path)
        else:
            found.append((path, value))
    return found

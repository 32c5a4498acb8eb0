# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and architecture: what the weights prove, and whether drafter and target belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, NOTE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, is_int

# Architectures of vLLM that draft as DFlash does, with keys of their own.
_OTHERS = re.compile("MuseGlimmerAssistantModel|DFlashMuseGlimmerAssistantModel|DFlashLaguna|LiLiCorrDraftModel")
# A revision differs from another in these; a slip of the hand differs in one.
_STRUCTURE = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "head_dim",
    "num_attention_heads",
    "num_key_value_heads",
)


def ids_count(case: Case) -> int | None:
    """How many target layers the weights take; None if they don't say."""
    shape = case.weights.shape("fc.weight", 2)
    return shape[1] // case.width if shape and case.width and shape[1] % case.width == 0 else None


def contradicted(case: Case) -> list[str]:
    """The structural facts of the file that the weights contradict."""
    proofs = case.weights.proofs
    wrong = [f for f in _STRUCTURE if f in proofs and case.has(f) and case.get(f) != proofs[f].value]
    ids, count = case.get("target_layer_ids"), ids_count(case)
    return [*wrong, "target_layer_ids"] if isinstance(ids, list) and count not in (None, len(ids)) else wrong


def complete(case: Case) -> Iterator[Finding]:
    """The weights are a DFlash drafter's, and all of them."""
    section, layers = case.config.get("dflash_config"), case.weights.layers
    without_fc = isinstance(section, dict) and section.get("use_aux_hidden_state") is False
    why = ""
    if not without_fc and not any(name.startswith("fc.") for name in case.weights.tensors):
        why = "fc, which takes the target's hidden states: they are another model's"
    elif not layers:
        why = "any layer"
    elif case.weights.gap is not None:
        why = f"the layer {case.weights.gap}, and have others up to {layers[-1]}: they are not whole"
    elif case.weights.lost:
        why = f"{case.weights.lost}, which other layers have: they are not whole"
    if why:
        yield Finding("config.json", MISSING, MISSING, ERROR, f"the weights lack {why}", "the weights' header")


def proven(case: Case) -> Iterator[Finding]:
    """One size that contradicts the weights is mended by them; several mean that these weights are not this config's."""
    wrong = contradicted(case)
    if len(wrong) > 1:
        yield Finding(
            "config.json",
            [case.key(fact) for fact in wrong],
            MISSING,
            ERROR,
            "the weights contradict several keys, as those of another revision do; fetch both from one revision, "
            "name its config as reference, or assert these keys in values",
            "the weights' header",
        )
    for fact, proof in case.weights.proofs.items():
        value = case.loaded(fact)
        if fact not in case.form.places or value == proof.value:
            continue
        if fact == "draft_vocab_size" and not case.has(fact) and case.loaded("vocab_size") == proof.value:
            continue
        why = "the weights have another size" if case.has(fact) else f"left out, it is {_default(value)}"
        yield case.say(fact, why, proof.evidence, wanted=proof.value, mend=len(wrong) < 2 or fact not in wrong)


def _default(value: object) -> str:
    return "unknown to the engine" if value in (None, MISSING) else f"silently {value}"


def bias(case: Case) -> Iterator[Finding]:
    """Biases that the weights lack would be whatever the memory held."""
    there = any(name.endswith(".q_proj.bias") for name in case.weights.tensors)
    if (case.get("attention_bias") is True) != there:
        why = f"the weights {'have' if there else 'lack'} biases of attention"
        yield case.say("attention_bias", why, "the weights' header", wanted=there)


def width(case: Case) -> Iterator[Finding]:
    """The target's hidden states fit into fc."""
    shape = case.weights.shape("fc.weight", 2)
    if shape is None or not case.width:
        return
    ids, hidden = case.get("target_layer_ids"), case.target.hidden_size if case.target else None
    if hidden and isinstance(ids, list) and shape[1] == len(ids) * hidden != len(ids) * case.width:
        why = f"the target's hidden states are {hidden} wide, and fc takes {len(ids)} of them"
        yield case.say("target_hidden_size", why, case.weights.cite("fc.weight"), wanted=hidden)
    elif shape[1] % case.width:
        why = f"the {shape[1]} inputs of fc are no multiple of {case.width}; assert the target's hidden size in values"
        yield case.say("target_hidden_size", why, case.weights.cite("fc.weight"))
    elif case.target and hidden and case.width % hidden:
        why = f"the target's hidden states are {hidden} wide: this drafter belongs to another target"
        yield case.say("target_hidden_size", why, f"{case.target.config}: hidden_size")


def pairing(case: Case) -> Iterator[Finding]:
    """Drafter and target belong together: what the drafter borrows must fit."""
    target = case.target
    if target is None:
        return
    proof = case.weights.proofs.get("hidden_size")
    hidden = proof.value if proof else case.loaded("hidden_size")
    if target.hidden_size and "embed_tokens.weight" not in case.weights.tensors and hidden != target.hidden_size:
        why = f"it borrows the target's embeddings, {target.hidden_size} wide: this drafter belongs to another target"
        yield case.say("hidden_size", why, f"{target.config}: hidden_size")
    size = case.loaded("vocab_size")
    if target.vocab_size and size != target.vocab_size and "d2t" not in case.weights.tensors:
        why = f"the target has {target.vocab_size} tokens: this drafter belongs to another target"
        yield case.say("vocab_size", why, f"{target.config}: vocab_size")
    stated = case.number("num_target_layers")
    if stated is not None and target.num_hidden_layers and stated != target.num_hidden_layers:
        why = f"this target has {target.num_hidden_layers}; a drafter works with the target that it was trained for"
        yield case.say("num_target_layers", why, f"{target.config}: num_hidden_layers", WARNING)


def positive(case: Case) -> Iterator[Finding]:
    """What neither the weights prove nor the loader checks."""
    for fact in (
        "vocab_size",
        "max_position_embeddings",
        "num_target_layers",
        "target_hidden_size",
        "draft_vocab_size",
    ):
        value, refusal = case.get(fact), case.effective.refusal
        if case.has(fact) and not (is_int(value) and value > 0) and fact not in case.weights.proofs:
            if refusal and refusal[0] == fact:
                continue
            spelt = formats.spelt(value)
            wanted = spelt if is_int(spelt) and spelt > 0 else MISSING
            remedy = "; assert it in values" if wanted is MISSING else ""
            yield case.say(fact, f"it must be a whole number above 0{remedy}", wanted=wanted)


def draft_vocabulary(case: Case) -> Iterator[Finding]:
    draft, full = case.number("draft_vocab_size"), case.loaded("vocab_size")
    if draft is not None and is_int(full) and 0 < draft != full and "d2t" not in case.weights.tensors:
        why = f"a choice of {draft} tokens out of {full} needs the tensor d2t, which the weights lack"
        yield case.say("draft_vocab_size", why, "the weights' header")


def architecture(case: Case) -> Iterator[Finding]:
    if case.form is formats.SPECULATORS:
        yield from _speculators(case)
        return
    if not isinstance(case.config.get("dflash_config", {}), dict):
        found = case.config.get("dflash_config")
        yield Finding("dflash_config", found, MISSING, ERROR, "it must be a section", "the rules of the engine")
    stated = case.get("architectures")
    wanted = ["DFlash2DraftModel" if case.weights.convolves else "DFlashDraftModel"]
    if not isinstance(stated, list) or not stated or not isinstance(stated[0], str):
        why = "without an architecture the engine can't choose a model"
        yield case.say("architectures", why, "the weights' header", wanted=wanted)
    elif case.weights.convolves != ("DFlash2" in stated[0]) and not _OTHERS.match(stated[0]):
        has = "have" if case.weights.convolves else "lack"
        why = f"the weights {has} a DFlash2 drafter's tensors"
        yield case.say("architectures", why, "the weights' header", wanted=wanted)
    elif not stated[0].startswith("DFlash") and not _OTHERS.match(stated[0]):
        why = "that is no drafter's architecture"
        yield case.say("architectures", why, "the engine's list of models", wanted=wanted)
    elif stated[0] not in ("DFlashDraftModel", "DFlash2DraftModel") and not _OTHERS.match(stated[0]):
        yield case.say("architectures", "vLLM 0.32 has no such model", "the engine's list of models", WARNING)
    if case.get("model_type") is MISSING:
        yield case.say("model_type", "without it the loader may not know the file", "transformers", WARNING)
    elif case.get("model_type") != "qwen3":
        yield case.say("model_type", "what the loader makes of it is predicted by the rules for qwen3", severity=NOTE)


def _speculators(case: Case) -> Iterator[Finding]:
    """What vLLM takes a file for a speculators one by, whatever its architectures say."""
    kind, section = (case.config.get(key, MISSING) for key in ("speculators_model_type", "speculators_config"))
    wanted = "dflash2" if case.weights.convolves else "dflash"
    if kind != wanted:
        why, paths = "by this the engine chooses a model", (("speculators_model_type",),)
        yield Finding("speculators_model_type", kind, wanted, ERROR, why, "the weights' header", paths)
    if not isinstance(section, dict):
        why = "without this section the engine takes the file for another format; assert it in values"
        yield Finding("speculators_config", section, MISSING, ERROR, why, "the rules of the engine")


def dflash2(case: Case) -> Iterator[Finding]:
    if not case.is_dflash2:
        return
    group, hidden = case.number("conv_group_size"), case.loaded("hidden_size")
    if group is not None and is_int(hidden) and (group <= 0 or hidden % group):
        yield case.say("conv_group_size", f"it must divide the hidden size {hidden}")
    if case.number("selector_top_k") is None:
        yield case.say("selector_top_k", "the engine needs a whole number; assert the drafter's in values")

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with a drafter's config. A rule looks at one case and yields findings; it never guesses a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import engines, formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import (
    DEFAULTS,
    FULL,
    SLIDING,
    Effective,
    predict,
    windows,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, Format, is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.target import Target
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Proof, Weights

ERROR, WARNING, NOTE = "error", "warning", "note"
FILE = "the config itself"


@dataclasses.dataclass(frozen=True)
class Finding:
    """wanted: MISSING if nothing says the right value. mend: what to write, where the evidence leaves no choice."""

    key: str
    found: Any
    wanted: Any
    severity: str
    why: str
    evidence: str
    fact: str = ""
    mend: tuple[tuple[Path, Any], ...] = ()

    def public(self) -> dict[str, Any]:
        found, wanted = (None if v is MISSING else v for v in (self.found, self.wanted))
        return {
            "key": self.key,
            "found": found,
            "wanted": wanted,
            "severity": self.severity,
            "why": self.why,
            "evidence": self.evidence,
        }


@dataclasses.dataclass(frozen=True)
class Case:
    """One config with all that is known beside it. settled: the facts whose value a claim confirms."""

    config: Mapping[str, Any]
    form: Format
    weights: Weights
    target: Target | None
    engine: engines.Engine
    settled: frozenset[str] = frozenset()
    proofs: Mapping[str, Proof] = dataclasses.field(init=False)
    effective: Effective = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "proofs", self.weights.proofs())
        object.__setattr__(self, "effective", predict(self.config, self.form))

    def get(self, fact: str) -> Any:
        return formats.read(self.config, self.form, fact)

    def places(self, fact: str) -> tuple[Path, ...]:
        return formats.places(self.config, self.form, fact)

    def key(self, fact: str) -> str:
        return formats.key(self.places(fact)[0]) if self.places(fact) else fact

    def loaded(self, fact: str) -> Any:
        """What a fact is after loading: the loader's default, where the config is silent."""
        if fact in self.effective.values:
            return self.effective.values[fact]
        return self.get(fact)

    def finding(
        self,
        fact: str,
        why: str,
        evidence: str = FILE,
        severity: str = ERROR,
        wanted: Any = MISSING,
        mend: bool = False,
    ) -> Finding:
        """A finding about a fact, its values written as this format writes them."""
        written = formats.encode(self.form, fact, wanted)
        return Finding(
            self.key(fact),
            formats.encode(self.form, fact, self.get(fact)),
            written,
            severity,
            why,
            evidence,
            fact,
            tuple((path, written) for path in self.places(fact)) if mend else (),
        )

    def structural(self) -> list[str]:
        """The facts of the file that the weights contradict: more than one means that they are not of one revision."""
        wrong = [
            fact
            for fact in ("num_hidden_layers", "hidden_size", "intermediate_size", "head_dim", "num_attention_heads")
            if fact in self.proofs and self.get(fact) is not MISSING and self.get(fact) != self.proofs[fact].value
        ]
        count, ids = self.ids_count(), self.get("target_layer_ids")
        if count is not None and isinstance(ids, list) and len(ids) != count[0]:
            wrong.append("target_layer_ids")
        return wrong

    def ids_count(self) -> tuple[int, int] | None:
        """How many ids the weights take, and the width of each; None if the weights don't say."""
        shape = self.weights.shape("fc.weight")
        hidden = self.proofs.get("hidden_size")
        width = self.get("target_hidden_size")
        if not is_int(width) or width <= 0:
            width = hidden.value if hidden else self.loaded("hidden_size")
        if shape is None or len(shape) != 2 or not is_int(width) or width <= 0 or shape[1] % width:
            return None
        return shape[1] // width, width

    def target_layers(self) -> tuple[int, str] | None:
        """How many layers the target has, and who says so."""
        if self.target and self.target.num_hidden_layers:
            return self.target.num_hidden_layers, f"{self.target.config}: num_hidden_layers"
        stated = self.get("num_target_layers")
        return (stated, f"{FILE}: num_target_layers") if is_int(stated) and stated > 0 else None


def formula(layers: int, count: int, start: int = 1) -> list[int]:
    """The ids that the publishers' formula gives. Drafters exist that were trained otherwise: a hint, no more."""
    if count == 1:
        return [layers // 2]
    return [round(start + i * (layers - 3 - start) / (count - 1)) for i in range(count)]


def mask_token(case: Case) -> Iterator[Finding]:
    fact, mask = "mask_token_id", case.get("mask_token_id")
    if mask is MISSING or mask is None:
        yield from _named_mask(case, "there is none, and the engine needs one", ERROR)
        if not _mask_by_name(case):
            yield case.finding(fact, "there is none, and the engine needs one; assert the drafter's in values")
        return
    if isinstance(mask, str) and mask.isdigit():
        yield case.finding(
            fact, "a string is no token: the server dies at its first request", wanted=int(mask), mend=True
        )
        return
    if not is_int(mask):
        yield case.finding(fact, "it is no whole number: the server dies at its first request")
        return
    rows, evidence = _vocabulary(case)
    if mask < 0 or (rows is not None and mask >= rows):
        bound = f"outside the {rows} rows of the embedding" if mask >= 0 else "no row of the embedding"
        yield from _one_of(case, f"{bound}: the server dies at its first request", evidence)
        return
    special = _special(case).get(mask)
    if special is not None:
        yield from _one_of(case, f"that is the {special[0]}, which means something else", special[1])
        return
    if fact not in case.settled and _mask_by_name(case) not in (None, mask):
        yield from _named_mask(case, "it is not the token that is named the mask", ERROR)


def _one_of(case: Case, why: str, evidence: str) -> Iterator[Finding]:
    """A mask that can't be: mended if a name gives the right one."""
    if _mask_by_name(case) is None:
        yield case.finding("mask_token_id", why, evidence)
    else:
        yield from _named_mask(case, why, ERROR)


def _named_mask(case: Case, why: str, severity: str) -> Iterator[Finding]:
    wanted = _mask_by_name(case)
    if wanted is not None and case.target is not None:
        word = case.get("mask_token")
        where = case.target.mask.evidence if case.target.mask else f"{FILE}: dflash_config.mask_token {word}"
        yield case.finding("mask_token_id", why, where, severity, wanted, mend=True)


def _mask_by_name(case: Case) -> int | None:
    if case.target is None:
        return None
    named = case.get("mask_token")
    if isinstance(named, str) and named in case.target.tokens:
        return case.target.tokens[named]
    return case.target.mask.id if case.target.mask else None


def _vocabulary(case: Case) -> tuple[int | None, str]:
    if "vocab_size" in case.proofs:
        return case.proofs["vocab_size"].value, case.proofs["vocab_size"].evidence
    if case.target and case.target.vocab_size:
        return case.target.vocab_size, f"{case.target.config}: vocab_size"
    size = case.loaded("vocab_size")
    return (size if is_int(size) else None), f"{FILE}: {case.key('vocab_size')}"


def _special(case: Case) -> dict[int, tuple[str, str]]:
    if case.target is not None:
        return {number: (f"target's {t.word}", t.evidence) for number, t in case.target.special.items()}
    found: dict[int, tuple[str, str]] = {}
    for role in ("pad", "eos", "bos"):
        number = case.config.get(f"{role}_token_id")
        if is_int(number):
            found[number] = (f"{role} token", f"{FILE}: {role}_token_id")
    return found


def target_layer_ids(case: Case) -> Iterator[Finding]:
    fact, ids = "target_layer_ids", case.get("target_layer_ids")
    settle = "assert the drafter's ids in values, or give its published config as reference"
    if ids is MISSING or ids is None or ids == []:
        yield case.finding(fact, f"without them the engine silently takes ids of its own; {settle}")
        return
    if not isinstance(ids, list) or not all(is_int(i) for i in ids):
        yield case.finding(fact, f"they are no list of whole numbers; {settle}")
        return
    if min(ids) < 0 or ids != sorted(set(ids)):
        yield case.finding(fact, f"they must be layers in rising order, each once; {settle}")
        return
    count = case.ids_count()
    if count is not None and len(ids) != count[0]:
        yield case.finding(
            fact,
            f"{len(ids)} ids, but the weights take the hidden states of {count[0]} layers ({count[0]} x {count[1]}); {settle}",
            case.weights.cite("fc.weight"),
        )
        return
    layers = case.target_layers()
    if layers is None:
        return
    if max(ids) >= layers[0]:
        yield case.finding(fact, f"the target's layers end at {layers[0] - 1}; {settle}", layers[1])
        return
    start = 5 if case.form is formats.DFLASH2 else 1
    usual = formula(layers[0], len(ids), start)
    if fact in case.settled or ids == usual or case.form is formats.SPECULATORS:
        return
    if ids == [i + 1 for i in usual]:
        yield case.finding(
            fact,
            f"they look like {usual} already shifted by one, and the engine adds one itself; {settle}",
            f"the publishers' formula for {layers[0]} layers",
        )
    else:
        yield case.finding(
            fact,
            f"the usual ids for {len(ids)} of {layers[0]} layers are {usual}; right only if this drafter was trained otherwise",
            f"the publishers' formula for {layers[0]} layers",
            WARNING,
        )


def proven_sizes(case: Case) -> Iterator[Finding]:
    """Sizes that the weights prove. One that is wrong is mended; several mean that these weights are not this config's."""
    wrong = case.structural()
    mixed = len(wrong) > 1
    if mixed:
        yield Finding(
            "config.json",
            ", ".join(f"{case.key(fact)} {_short(case.get(fact))}" for fact in wrong),
            MISSING,
            ERROR,
            "config and weights are of different revisions: fetch both from one, or give that revision's config as reference",
            "; ".join(
                case.weights.cite("fc.weight") if fact == "target_layer_ids" else case.proofs[fact].evidence
                for fact in wrong
            ),
        )
    for fact, proof in case.proofs.items():
        if fact == "vocab_size" and case.form is formats.SPECULATORS and fact not in case.effective.values:
            continue
        value = case.loaded(fact)
        if value == proof.value or (fact == "draft_vocab_size" and value in (MISSING, None)):
            continue
        silent = case.get(fact) is MISSING
        yield case.finding(
            fact,
            f"the key is absent and silently becomes {value}" if silent else "the weights have another size",
            proof.evidence,
            wanted=proof.value,
            mend=not (mixed and fact in wrong) and fact in case.form.places,
        )


def layer_types(case: Case) -> Iterator[Finding]:
    fact, types = "layer_types", case.get("layer_types")
    if case.effective.refusal:
        what, why = case.effective.refusal
        value = case.get(what)
        plain = _plain(what, value)
        yield case.finding(
            what,
            f"the loader refuses the file: {why}",
            wanted=plain,
            mend=plain is not MISSING,
        )
        return
    odd = [w for w in types if w not in (SLIDING, FULL)] if isinstance(types, list) else []
    if odd:
        yield case.finding(fact, f"the engine knows {SLIDING} and {FULL}, and takes {odd[0]} for full attention")


def _plain(fact: str, value: Any) -> Any:
    """A value that only its type makes wrong, such as "24" for 24."""
    if isinstance(value, str):
        if fact == "use_sliding_window" and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value.isdigit() and fact != "layer_types":
            return int(value)
    return MISSING


def window(case: Case) -> Iterator[Finding]:
    """The window is there where a layer slides, and the loader keeps it."""
    if case.effective.refusal:
        return
    resolved = windows(case.config, case.form, case.effective)
    size, use = case.get("sliding_window"), case.get("use_sliding_window")
    where = "swa_window_size" if case.get("swa_window_size") is not MISSING else "sliding_window"
    settle = "assert the drafter's window in values"
    if MISSING in resolved:
        if case.form is not formats.SPECULATORS and is_int(size) and use is not True:
            yield case.finding(
                "use_sliding_window",
                f"layers slide over a window of {size}, but the loader drops it unless this is true, and the engine won't start",
                wanted=True,
                mend=True,
            )
        else:
            yield case.finding(where, f"layers slide, but over no window: the engine won't start; {settle}")
        return
    if any(w is not None for w in resolved):
        yield from _plausible(case, where, settle)
    elif case.get("layer_types") in (MISSING, None):
        if is_int(size) and "layer_types" not in case.settled:
            yield case.finding(
                "layer_types",
                f"a window of {size} is set, but without the types every layer silently becomes {FULL}; "
                "assert the drafter's types in values",
            )
        else:
            yield case.finding("layer_types", f"without the types every layer silently becomes {FULL}", severity=NOTE)
    elif is_int(case.effective.values["sliding_window"]) and "layer_types" not in case.settled:
        yield case.finding(
            "layer_types",
            f"a window of {size} is set and used by no layer: the types or the window are wrong; "
            "assert the drafter's types in values",
        )


def _plausible(case: Case, where: str, settle: str) -> Iterator[Finding]:
    size = case.get(where)
    if size is MISSING:
        default = DEFAULTS["sliding_window"]
        yield case.finding(where, f"layers slide, and the absent window silently becomes {default}; {settle}")
        return
    if case.get("layer_types") in (MISSING, None) and not case.get("use_swa") is True:
        yield case.finding(
            "layer_types", "without the types the loader derives them from max_window_layers", severity=WARNING
        )
    if not is_int(size) or size <= 0:
        yield case.finding(where, f"a window is a whole number above 0; {settle}")
        return
    if where in case.settled:
        return
    block, reach = case.get("block_size"), case.loaded("max_position_embeddings")
    if is_int(block) and size <= block:
        yield case.finding(where, f"a window no wider than the block of {block} hides the text from it; {settle}")
    elif is_int(reach) and size > reach:
        yield case.finding(
            where, f"a window wider than all that the drafter can see ({reach} positions) is none; {settle}"
        )


def block_size(case: Case) -> Iterator[Finding]:
    block, stated = case.get("block_size"), case.get("num_speculative_tokens")
    if block is MISSING or block is None:
        yield case.finding(
            "block_size",
            "without it the number of speculative tokens is not known; assert it in values",
            severity=WARNING,
        )
        return
    plain = _plain("block_size", block)
    if not is_int(block) or block < 2:
        yield case.finding(
            "block_size", "a block is a whole number above 1", wanted=plain, mend=is_int(plain) and plain > 1
        )
        return
    values = {formats.key(p): formats.look(case.config, p) for p in case.places("block_size")}
    if len(set(map(str, values.values()))) > 1:
        both = " and ".join(f"{k} {v}" for k, v in values.items())
        yield case.finding("block_size", f"the file contradicts itself: {both}; assert the right one in values")
        return
    expected = speculative_tokens(case)
    if stated is not MISSING and stated != expected:
        sure = "block_size" in case.settled
        yield case.finding(
            "num_speculative_tokens",
            f"a block of {block} drafts {expected} tokens"
            + ("" if sure else "; assert the right block_size in values"),
            wanted=expected,
            mend=sure,
        )


def speculative_tokens(case: Case) -> int | None:
    """How many tokens a block drafts: its first token is the anchor, unless that is sampled from too."""
    block = case.get("block_size")
    if not is_int(block) or block < 2:
        return None
    return int(block if case.get("sample_from_anchor") is True else block - 1)


def pairing(case: Case) -> Iterator[Finding]:
    """The drafter and the target belong together."""
    target = case.target
    if target is None:
        return
    own_vocabulary = "vocab_size" in case.proofs
    hidden = case.proofs["hidden_size"].value if "hidden_size" in case.proofs else case.loaded("hidden_size")
    if target.hidden_size and not own_vocabulary and hidden != target.hidden_size:
        yield case.finding(
            "hidden_size",
            f"the drafter borrows the target's embeddings, which are {target.hidden_size} wide: it belongs to another target",
            f"{target.config}: hidden_size",
        )
    size = case.loaded("vocab_size")
    if target.vocab_size and size not in (target.vocab_size, None) and "d2t" not in case.weights.tensors:
        yield case.finding(
            "vocab_size",
            f"the target's vocabulary has {target.vocab_size} tokens: the drafter belongs to another target",
            f"{target.config}: vocab_size",
        )
    stated = case.get("num_target_layers")
    if is_int(stated) and target.num_hidden_layers and stated != target.num_hidden_layers:
        yield case.finding(
            "num_target_layers",
            f"this target has {target.num_hidden_layers} layers",
            f"{target.config}: num_hidden_layers",
            WARNING,
        )


def draft_vocabulary(case: Case) -> Iterator[Finding]:
    draft, full = case.get("draft_vocab_size"), case.loaded("vocab_size")
    if is_int(draft) and is_int(full) and draft < full and "d2t" not in case.weights.tensors:
        yield case.finding(
            "draft_vocab_size",
            f"a vocabulary of {draft} out of {full} needs the tensor d2t, and the weights have none",
            "the weights' header",
        )


def architecture(case: Case) -> Iterator[Finding]:
    if case.form is formats.SPECULATORS:
        return
    stated = case.get("architectures")
    convolves = any("attention_conv." in name for name in case.weights.tensors)
    wanted = ["DFlash2DraftModel"] if convolves else ["DFlashDraftModel"]
    if not isinstance(stated, list) or not all(isinstance(a, str) for a in stated) or not stated:
        yield case.finding("architectures", "without it the engine can't choose a model", wanted=wanted, mend=True)
    elif convolves != ("DFlash2" in stated[0]):
        why = "the weights have convolutions" if convolves else "the weights have no convolutions"
        yield case.finding("architectures", why, "the weights' header", wanted=wanted, mend=True)


def dflash2(case: Case) -> Iterator[Finding]:
    if case.form is not formats.DFLASH2:
        return
    group, hidden = case.get("conv_group_size"), case.loaded("hidden_size")
    if is_int(group) and is_int(hidden) and (group <= 0 or hidden % group):
        yield case.finding("conv_group_size", f"it must divide hidden_size {hidden}")
    if not is_int(case.get("selector_top_k")):
        yield case.finding("selector_top_k", "the engine needs it; assert the drafter's in values")


def rope(case: Case) -> Iterator[Finding]:
    if case.get("rope_theta") is MISSING and case.get("rope_parameters") is MISSING:
        yield case.finding(
            "rope_theta", "the key is absent and silently becomes the loader's default of 10000", severity=WARNING
        )


def engine(case: Case) -> Iterator[Finding]:
    version, runner, text = case.engine.version, case.engine.runner, case.engine.text
    resolved = [] if case.effective.refusal else windows(case.config, case.form, case.effective)
    slides, mixed = any(w is not None for w in resolved), None in resolved and any(w is not None for w in resolved)
    evidence = f"the engine: vLLM {text or 'of unknown version'}" + (f", {runner} model runner" if runner else "")
    # A build from source may carry what its version number hasn't, such as pull request 40898.
    severity = WARNING if case.engine.from_source else ERROR
    if version is not None and case.engine.lacks(engines.WINDOWS):
        if slides:
            yield case.finding("layer_types", "before 0.25 vLLM ignores the window of a drafter", evidence, severity)
        if not case.engine.shifts_ids and case.form is not formats.SPECULATORS:
            why = "before about 0.22 vLLM takes the layers before these ids (no #40727): acceptance is a bit lower"
            yield case.finding("target_layer_ids", why, evidence, WARNING)
    elif mixed and (case.engine.lacks(engines.MIXED_LAYERS) or runner == "v1"):
        remedy = "use 0.26 or newer with VLLM_USE_V2_MODEL_RUNNER=1"
        yield case.finding(
            "layer_types", f"it refuses sliding and full layers in one drafter; {remedy}", evidence, severity
        )
    elif mixed and runner is None:
        why = "sliding and full layers in one drafter need vLLM 0.26 or newer and its V2 model runner"
        yield case.finding("layer_types", why, evidence, NOTE)
    if case.form is formats.DFLASH2 and (case.engine.lacks(engines.DFLASH2) or runner == "v1"):
        why = "a DFlash2 drafter needs vLLM 0.28 or newer and its V2 model runner"
        yield case.finding("architectures", why, evidence, severity)
    if case.get("quantization_config") not in (MISSING, None) or case.weights.quantised:
        old = case.engine.lacks(engines.QUANTISED)
        why = "up to 0.29 vLLM can't load a drafter with quantised weights (issue 51581)"
        yield case.finding("quantization_config", why, evidence, severity if old else NOTE)


def _short(value: Any) -> str:
    return f"of {len(value)}" if isinstance(value, list) else str(value)


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    proven_sizes,
    mask_token,
    target_layer_ids,
    layer_types,
    window,
    block_size,
    pairing,
    draft_vocabulary,
    architecture,
    dflash2,
    rope,
    engine,
)


def examine(case: Case) -> list[Finding]:
    """All findings, the first of each key only: what follows a wrong value is not news."""
    found: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(case):
            found.setdefault(finding.key, finding)
    return list(found.values())

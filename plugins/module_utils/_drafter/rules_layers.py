# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The target's layers that feed the drafter, and the length of its block."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, WARNING, Case, Finding, spoken
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.rules_sizes import ids_count

_SETTLE = "assert the drafter's ids in values, or name its published config as reference"


def formula(layers: int, count: int, start: int = 1) -> list[int]:
    """The ids by the publishers' formula. Drafters exist that were trained otherwise, so it is a hint and no more."""
    if count == 1:
        return [layers // 2]
    return [round(start + i * (layers - 3 - start) / (count - 1)) for i in range(count)]


def target_layer_ids(case: Case) -> Iterator[Finding]:
    ids = case.get("target_layer_ids")
    if ids in (MISSING, None, []):
        why = f"without them the engine silently takes layers of its own; {_SETTLE}"
        yield case.say("target_layer_ids", why)
    elif not isinstance(ids, list) or not all(is_int(i) for i in ids):
        yield case.say("target_layer_ids", f"they are no list of whole numbers; {_SETTLE}")
    elif min(ids) < 0 or ids != sorted(set(ids)):
        yield case.say("target_layer_ids", f"they must be layers of the target, each once and rising; {_SETTLE}")
    elif ids_count(case) not in (None, len(ids)):
        why = f"there are {len(ids)}, and the weights take {ids_count(case)} layers, each {case.width} wide; {_SETTLE}"
        yield case.say("target_layer_ids", why, case.weights.cite("fc.weight"))
    elif case.target_layers and max(ids) >= case.target_layers[0]:
        why = f"the target has the layers 0 to {case.target_layers[0] - 1}; {_SETTLE}"
        yield case.say("target_layer_ids", why, case.target_layers[1])
    elif case.target_layers and "target_layer_ids" not in case.settled:
        yield from _unusual(case, ids, case.target_layers[0])


def _unusual(case: Case, ids: list[int], layers: int) -> Iterator[Finding]:
    usual = formula(layers, len(ids), 5 if case.is_dflash2 else 1)
    evidence = f"the publishers' formula for {len(ids)} of {layers} layers"
    if ids == [i + 1 for i in usual] and not case.form.shift:
        why = f"they look like {usual} with the engine's own shift by one already in them; {_SETTLE}"
        yield case.say("target_layer_ids", why, evidence)
    elif ids != usual:
        written = formats.encode(case.form, "target_layer_ids", usual)
        why = f"usual would be {written}; these are right only if the drafter was trained with them"
        yield case.say("target_layer_ids", why, evidence, WARNING)


def speculative_tokens(case: Case) -> int | None:
    """How many tokens a block drafts: all but its anchor, unless that is sampled from, too."""
    block = case.number("block_size")
    if block is None or block < 2:
        return None
    return block if case.get("sample_from_anchor") is True else block - 1


def aux_layers(case: Case) -> list[int]:
    """The layers that the engine will log as the auxiliary ones."""
    ids = case.get("target_layer_ids")
    if not isinstance(ids, list) or not all(map(is_int, ids)):
        return []
    shifted = case.form.shift or not case.engine.takes_ids_as_they_are
    return [i + 1 for i in ids] if shifted else ids


def contradictions(case: Case) -> Iterator[Finding]:
    """A fact that stands in two places. Of most of them the engine takes the first; a block it doesn't read at all."""
    for fact in ("mask_token_id", "target_layer_ids", "block_size"):
        looked = {formats.key(path): formats.look(case.config, path) for path in case.places(fact)}
        stated = {key: value for key, value in looked.items() if value not in (MISSING, None)}
        values = list(stated.values())
        if any(not formats.same(value, values[0]) for value in values):
            both = " and ".join(f"{key} {spoken(value)}" for key, value in stated.items())
            why = f"the file contradicts itself: {both}; assert the right one in values"
            yield case.say(fact, why, severity=ERROR if fact == "block_size" else WARNING)


def block_size(case: Case) -> Iterator[Finding]:
    block, number = case.get("block_size"), formats.spelt(case.get("block_size"))
    if not case.has("block_size"):
        why = "without it nobody knows how many tokens to speculate; assert it in values"
        yield case.say("block_size", why, severity=WARNING)
    elif not is_int(block) or block < 2:
        wanted = number if is_int(number) and number > 1 else MISSING
        yield case.say("block_size", "a block is a whole number, 2 at least; assert it in values", wanted=wanted)
    elif case.has("num_speculative_tokens") and case.get("num_speculative_tokens") != speculative_tokens(case):
        drafts = speculative_tokens(case)
        if "block_size" in case.settled:
            yield case.say("num_speculative_tokens", f"a block of {block} drafts {drafts}", wanted=drafts)
        else:
            why = (
                f"a block of {block} drafts {drafts}, so one of the two is wrong; assert the right block_size in values"
            )
            yield case.say("block_size", why)
            yield case.say("num_speculative_tokens", why)

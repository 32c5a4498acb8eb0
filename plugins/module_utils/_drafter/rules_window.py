# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drafter's sliding window: there where a layer slides, kept by the loader, and plausible."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, FILE, NOTE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import (
    DEFAULTS,
    FULL,
    ROPE_THETA,
    SLIDING,
    VLLM_ROPE_THETA,
    windows,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, is_int

_TYPES = "assert the drafter's layer_types in values"
_SIZE = "assert the drafter's window in values"


def refused(case: Case) -> Iterator[Finding]:
    """What the loader refuses outright."""
    if not case.effective.refusal:
        return
    name, why = case.effective.refusal
    proof, types = case.weights.proofs.get("num_hidden_layers"), case.get("layer_types")
    if name == "layer_types" and proof and isinstance(types, list) and len(types) == proof.value and _known(types):
        return  # the number of layers is wrong, and is said to be
    found = case.get(name) if name in case.form.places else case.config.get(name)
    wanted = formats.spelt(found)
    why = f"the loader refuses the file: {why}" + ("; assert it in values" if wanted is MISSING else "")
    if name in case.form.places:
        yield case.say(name, why, proof.evidence if proof and name == "layer_types" else FILE, wanted=wanted)
    else:
        yield Finding(name, found, wanted, ERROR, why, FILE, () if wanted is MISSING else ((name,),))


def _known(types: list[Any]) -> bool:
    return all(word in (FULL, SLIDING) for word in types)


def truths(case: Case) -> Iterator[Finding]:
    """What the engine takes for true because it is there, even if it says "false"."""
    for fact in formats.TRUTHS:
        if fact != "use_sliding_window" and case.has(fact) and not isinstance(case.get(fact), bool):
            spelt = formats.spelt(case.get(fact))
            wanted = spelt if isinstance(spelt, bool) else MISSING
            yield case.say(
                fact, "it must be true or false; the engine takes it for whatever Python does", wanted=wanted
            )


def window(case: Case) -> Iterator[Finding]:
    resolved = windows(case.config, case.form, case.effective)
    where = "swa_window_size" if case.get("swa_window_size") is not MISSING else "sliding_window"
    if MISSING in resolved:
        size = case.number("sliding_window")
        if size is not None and case.form is not formats.SPECULATORS:
            why = f"unless this is true the loader drops the window of {size}, and the engine refuses to start"
            yield case.say("use_sliding_window", why, wanted=True)
        else:
            yield case.say(where, f"layers slide over no window: the engine refuses to start; {_SIZE}")
    elif case.has("layer_types") and not case.effective.refusal and not _known(case.effective.values["layer_types"]):
        yield case.say("layer_types", f"the engine knows {SLIDING}, and takes every other word for {FULL}; {_TYPES}")
    elif any(size is not None for size in resolved):
        yield from _plausible(case, where)
    elif not case.effective.refusal:
        yield from _unused(case)


def _unused(case: Case) -> Iterator[Finding]:
    """No layer slides. Whether one should, only a window that is set can tell."""
    if "layer_types" in case.settled:
        return
    size = case.effective.values["sliding_window"]
    if case.has("layer_types"):
        if is_int(size):
            yield case.say("layer_types", f"the window of {size} that is set is used by no layer; {_TYPES}")
    elif case.number("sliding_window") is not None or case.get("use_sliding_window") is True:
        yield case.say("layer_types", f"left out, they are silently all {FULL}, and the window is lost; {_TYPES}")
    else:
        yield case.say("layer_types", f"left out, they are all {FULL}", severity=NOTE)


def _plausible(case: Case, where: str) -> Iterator[Finding]:
    size = case.get(where)
    if size is MISSING:
        yield case.say(where, f"left out, it is silently {DEFAULTS['sliding_window']}; {_SIZE}")
        return
    if not case.has("layer_types") and case.get("use_swa") is not True:
        why = f"left out, they are derived from max_window_layers {case.loaded('max_window_layers')}"
        yield case.say("layer_types", why, severity=WARNING)
    block, reach = case.number("block_size"), case.loaded("max_position_embeddings")
    if not is_int(size) or size <= 0:
        yield case.say(where, f"a window is a whole number above 0; {_SIZE}")
    elif block is not None and size <= block:
        # Nothing says which of the two is wrong, unless somebody vouches for one.
        if where not in case.settled:
            why = f"a window no wider than the block of {block} hides the text from the drafter; {_SIZE}"
            yield case.say(where, why)
        if "block_size" not in case.settled:
            why = f"a block no narrower than the window of {size} hides the text from the drafter; assert it in values"
            yield case.say("block_size", why)
    elif where in case.settled:
        return
    elif is_int(reach) and size > reach:
        why = f"a window wider than the {reach} positions that the drafter knows is none; {_SIZE}"
        yield case.say(where, why, f"{FILE}: {case.key('max_position_embeddings')}")


def rope(case: Case) -> Iterator[Finding]:
    section = case.config.get("rope_parameters")
    by_type = isinstance(section, dict) and any(isinstance(value, dict) for value in section.values())
    theta = case.get("rope_theta")
    if theta is MISSING and not by_type:
        default = VLLM_ROPE_THETA if case.form is formats.SPECULATORS else ROPE_THETA
        yield case.say("rope_theta", f"left out, it is silently {default:.0f}", severity=WARNING)
    elif theta is not MISSING and not ((is_int(theta) or isinstance(theta, float)) and 0 < theta < math.inf):
        why, wanted = "it must be a number above 0; assert the drafter's in values", formats.spelt(theta)
        yield case.say("rope_theta", why, wanted=wanted if is_int(wanted) and wanted else MISSING)

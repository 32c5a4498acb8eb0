# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pattern of a probe's figures points to. It claims no more than the figures tell."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine.probe import Measurement, Phase


@dataclasses.dataclass(frozen=True)
class Pattern:
    """ill: a fault, whatever was wanted; else only a reason for less than was wanted."""

    cause: str
    remedy: str = ""
    ill: bool = True


CHECK = (
    "Check the drafter's config.json against its weights and its published values with drafter_info. If it is right, check "
    "that the prompts are such as the drafter was trained for"
)
# What versions of vLLM, from the first to the last, do to a drafter that is right.
KNOWN = (
    (
        (0, 20),
        (0, 21),
        "does not shift target_layer_ids by one (vllm-project/vllm#40727) and takes all layers for full attention",
    ),
    ((0, 22), (0, 22), "reads the KV cache of some drafters in the wrong layout (vllm-project/vllm#45343)"),
    ((0, 25), (0, 25), "may get nothing from drafters of the speculators format on its V2 runner"),
)


def read(measurement: Measurement) -> Pattern:
    phases, version = measurement.phases, measurement.version
    short, long, repeated = (phases.get(name) for name in ("short", "long", "repeated"))
    if short and repeated and _collapsed(repeated, short) and repeated.counted.cache_hits != 0:
        return Pattern(
            "Prompts that share their beginning with earlier ones are drafted badly, others well: the drafter lacks what "
            "prefix caching skips (vllm-project/vllm#47930)",
            "Start the server with --no-enable-prefix-caching",
        )
    if short and long and _collapsed(long, short) and _context(long) > 2 * _context(short):
        return Pattern(
            f"Acceptance is lost somewhere between {_context(short)} and {_context(long)} tokens of context: the drafter's "
            "sliding window is lost" + _known(version),
            "Check layer_types, sliding_window, use_sliding_window and max_window_layers in the drafter's config.json "
            "with drafter_info, and whether this vLLM honours them",
        )
    return shape(short or measurement.whole, version)


def regression(measurement: Measurement, baseline: dict[str, Any]) -> Pattern:
    """What a fall against an earlier measurement points to where the figures themselves show no fault."""
    now, then = measurement.version, baseline.get("version")
    drafted, before = len(measurement.whole.figures()["per_position"]), len(baseline.get("per_position") or ())
    if before and drafted != before:
        return Pattern(
            f"The drafter proposes {drafted} tokens at a time now and {before} then",
            "Measure both with the same num_speculative_tokens",
        )
    if now and then and now != then:
        return Pattern(
            f"vLLM went from {then} to {now}: a regression of the engine, if nothing else was changed",
            f"Measure the same drafter, target and prompts with {then} again, and stay there if that is better",
        )
    return Pattern(
        "Something other than the version of vLLM has changed: the drafter, the target, the prompts or max_tokens",
        "Look what was changed since the baseline was measured",
    )


def shape(phase: Phase, version: str | None) -> Pattern:
    """What one phase alone points to."""
    drafting = phase.counted.drafting
    positions = drafting.per_position if drafting else ()
    if not drafting or not positions:
        return Pattern("The figures name no positions, so they show no pattern", ill=False)
    if positions[0] < 0.02:
        return Pattern(
            "The drafter is wired wrongly, for not even the first drafted token is accepted: target_layer_ids or their "
            "offset, lm_head, the layout of its KV cache, or several values of its config.json at once"
            + _known(version),
            CHECK,
        )
    if positions[0] >= 0.1 and sum(positions[1:]) < 0.1 * positions[0]:
        return Pattern(
            "The drafter's block is wrong, for its first token is accepted and those after it never: mask_token_id, "
            "block_size, or a block that does not begin with the last token (sample_from_anchor)",
            CHECK,
        )
    if _gain(phase) < 0.3:
        return Pattern(
            "The drafter's config.json does not fit its weights: a wrong mask_token_id, target_layer_ids, layer_types or "
            "sliding_window, for the figures look alike for each" + _known(version),
            CHECK,
        )
    cliff = _cliff(positions, drafting.drafts)
    if cliff:
        return Pattern(
            f"Acceptance breaks off after {cliff} tokens: the drafter was trained for a shorter block, lost its window, or "
            "the target is not the one that it was trained for",
            f"Set num_speculative_tokens to the drafter's block_size - 1, or to {cliff}. {CHECK}",
        )
    if any(a.thinking for a in phase.answers):
        return Pattern(
            "The model was thinking, and drafters trained without that are accepted less",
            "Set chat_template_kwargs to {enable_thinking: false}, if the drafter was trained so",
            ill=False,
        )
    return Pattern(
        "The drafter is alive but weak. target_layer_ids off by one or left out, a target other than the one it was trained "
        "for, and prompts unlike its training all look like this" + _known(version),
        CHECK,
        ill=False,
    )


def _collapsed(phase: Phase, against: Phase) -> bool:
    return _gain(against) >= 0.3 and _gain(phase) < 0.5 * _gain(against)


def _gain(phase: Phase) -> float:
    """Accepted tokens per draft."""
    length = phase.counted.drafting.acceptance_length if phase.counted.drafting else None
    return (length or 1) - 1


def _context(phase: Phase) -> int:
    """Tokens of prompt and answer that a request had in the end, on average."""
    return (phase.prompt_tokens + phase.tokens) // max(len(phase.answers), 1)


def _cliff(positions: tuple[float, ...], drafts: float) -> int | None:
    """The number of positions before acceptance drops far below its own course, in enough drafts to tell."""
    for k in range(2, len(positions)):
        expected = positions[k - 1] ** 2 / positions[k - 2] if positions[k - 2] else 0
        if expected * drafts >= 5 and positions[k] < 0.2 * expected:
            return k
    return None


def _known(version: str | None) -> str:
    match = re.match(r"(\d+)\.(\d+)", version or "")
    number = (int(match.group(1)), int(match.group(2))) if match else None
    return "".join(f". vLLM {version} {does}" for first, last, does in KNOWN if number and first <= number <= last)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement: whether the figures of a probe pass, and what their pattern points to."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine.probe import Measurement, Phase

LIMITS = {"acceptance_length": "{:.2f}", "position_0": "{:.1%}", "acceptance_rate": "{:.1%}"}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The least that passes; None: measured only."""

    acceptance_length: float | None = None
    position_0: float | None = None
    acceptance_rate: float | None = None
    min_drafts: int = 100
    baseline: dict[str, Any] | None = None
    max_drop: float = 0.1


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What figures point to. ill: a fault, whatever was wanted; else only a reason for less than was wanted."""

    cause: str
    remedy: str = ""
    ill: bool = True


@dataclasses.dataclass(frozen=True)
class Verdict:
    """verdict: pass, fail, insufficient, no_speculation or unreachable. The rest is for people."""

    verdict: str
    says: str
    evidence: str
    pattern: Pattern

    @property
    def diagnosis(self) -> str:
        return " ".join(f"{part}." for part in (self.pattern.cause or self.says, self.pattern.remedy) if part)

    @property
    def message(self) -> str:
        parts = (
            ("", self.says),
            ("Evidence: ", self.evidence),
            ("Beware: " if self.verdict == "pass" else "Likely cause: ", self.pattern.cause),
            ("Remedy: ", self.pattern.remedy),
        )
        return "\n".join(f"{label}{part}." for label, part in parts if part)


def unreachable(cause: str, evidence: str, remedy: str) -> Verdict:
    return Verdict("unreachable", cause, evidence, Pattern("", remedy))


def judge(measurement: Measurement, wanted: Wanted) -> Verdict:
    doubt = _doubt(measurement, wanted)
    if doubt is not None:
        return doubt
    shortfalls = [*_shortfalls(measurement, wanted), *_drops(measurement, wanted)]
    pattern = read(measurement)
    evidence = _evidence(measurement)
    if shortfalls:
        return Verdict("fail", f"The drafter fails: {'; '.join(shortfalls)}", evidence, pattern)
    length = measurement.whole.figures()["acceptance_length"]
    said = "The acceptance length is unknown" if length is None else f"Acceptance length {length:.2f}"
    limited = any(getattr(wanted, key) is not None for key in (*LIMITS, "baseline"))
    said += ", as wanted" if limited else ", and no limit was given"
    return Verdict("pass", said, evidence, pattern if pattern.ill else Pattern(""))


def _doubt(measurement: Measurement, wanted: Wanted) -> Verdict | None:
    """Why the figures can't be judged."""
    whole, evidence = measurement.whole, _evidence(measurement)
    drafting, counted = whole.counted.drafting, whole.counted.generated

    def insufficient(says: str, remedy: str, details: str = evidence) -> Verdict:
        return Verdict("insufficient", f"The probe can't judge: {says}", details, Pattern("", remedy))

    if not whole.counted.heard:
        return insufficient(
            "the engine shows no figures",
            "Start it without --disable-log-stats, ask it directly and not through a gateway, or name its log",
            f"they were looked for in {measurement.source}; {evidence}",
        )
    if drafting is None or not drafting.drafted:
        moved = "name no drafts" if drafting is None else "count no draft"
        return Verdict(
            "no_speculation",
            f"The server does not speculate: {measurement.source} {moved} while it answered",
            evidence,
            Pattern(
                "",
                "Start it with --speculative-config (the method dflash and the drafter's path), and look in its log for "
                "whether the drafter was loaded",
            ),
        )
    if counted is not None and counted < whole.tokens * 0.95:
        return insufficient(
            f"of the {whole.tokens} tokens received, {measurement.source} account for {counted:.0f} only",
            "Probe each server itself, not a balancer in front of several, and name its own log",
        )
    if whole.foreign > 0.5:
        return insufficient(
            "most of what was counted is other traffic",
            "Take the traffic off this server first, or send more requests",
        )
    for name, phase in measurement.phases.items():
        figures = phase.figures()
        limits = {k for k in LIMITS if getattr(wanted, k) is not None} | (
            {"acceptance_length"} if wanted.baseline else set()
        )
        unknown = [k for k in LIMITS if k in limits and figures[k] is None]
        if unknown:
            return insufficient(
                f"{measurement.source} do not tell what {' and '.join(unknown)} would be judged by",
                "Set acceptance_rate instead, or let the server show /metrics",
            )
        if drafting.drafts and figures["drafts"] < wanted.min_drafts:
            return insufficient(
                f"{figures['drafts']} drafts in phase {name} are too few, {wanted.min_drafts} would do",
                "Send more requests, raise max_tokens, or lower min_drafts",
            )
    return None


def _shortfalls(measurement: Measurement, wanted: Wanted) -> list[str]:
    found = []
    for name, phase in measurement.phases.items():
        figures = phase.figures()
        for key, form in LIMITS.items():
            least = getattr(wanted, key)
            if least is not None and figures[key] < least:
                where = f" in phase {name}" if len(measurement.phases) > 1 else ""
                words = key.replace("_", " ")
                found.append(f"{words} {form.format(figures[key])}{where}, wanted at least {form.format(least)}")
    return found


def _drops(measurement: Measurement, wanted: Wanted) -> list[str]:
    """The falls against the baseline: phase by phase where it has the same phases, else as a whole."""
    baseline = wanted.baseline or {}
    then = {name: f for name, f in (baseline.get("phases") or {}).items() if name in measurement.phases}
    pairs = [(f" in phase {name}", measurement.phases[name].figures(), f) for name, f in then.items()]
    found = []
    for where, now, was in pairs or [("", measurement.whole.figures(), baseline)]:
        before, length = was.get("acceptance_length"), now["acceptance_length"]
        if before and length is not None and length < before * (1 - wanted.max_drop):
            versions = f"vLLM {measurement.version or 'unknown'} now, {baseline.get('version') or 'unknown'} then"
            found.append(
                f"acceptance length {length:.2f}{where} is {1 - length / before:.0%} below the {before:.2f} of the "
                f"baseline ({versions})"
            )
    return found


CHECK = (
    "Check the drafter's config.json against its weights and its published values with drafter_info. If it is right, check "
    "that the prompts are such as the drafter was trained for"
)


def read(measurement: Measurement) -> Pattern:
    """What the pattern of the figures points to; it claims no more than they tell."""
    phases = measurement.phases
    short, long, repeated = (phases.get(name) for name in ("short", "long", "repeated"))
    if short and repeated and _collapsed(repeated, short) and repeated.counted.cache_hits != 0:
        return Pattern(
            "Prompts that share their beginning with earlier ones are drafted badly, others well: the drafter lacks what "
            "prefix caching skips",
            "Start the server with --no-enable-prefix-caching",
        )
    if short and long and _collapsed(long, short) and _context(long) > 2 * _context(short):
        return Pattern(
            f"Acceptance is lost somewhere between {_context(short)} and {_context(long)} tokens of context: beyond the "
            "drafter's sliding window, so the window itself is lost",
            "Check layer_types, sliding_window, use_sliding_window and max_window_layers in the drafter's config.json "
            "with drafter_info, and whether this version of vLLM honours them",
        )
    return _shape(short or measurement.whole, measurement.version)


def _shape(phase: Phase, version: str | None) -> Pattern:
    drafting = phase.counted.drafting
    positions = drafting.per_position if drafting else ()
    if not drafting or not positions:
        return Pattern("The figures name no positions, so they show no pattern", ill=False)
    if positions[0] < 0.02:
        return Pattern(
            "The drafter is wired wrongly, for not even the first drafted token is accepted: target_layer_ids or their "
            "offset, lm_head, the layout of its KV cache, or several values of its config.json at once"
            + _suspicion(version),
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
            "sliding_window, for the figures look alike for each" + _suspicion(version),
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
        "for, and prompts unlike its training all look like this" + _suspicion(version),
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


def _suspicion(version: str | None) -> str:
    """What this version of vLLM is known to do to a right config."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    number = (int(match.group(1)), int(match.group(2))) if match else (0, 99)
    if number < (0, 22):
        return f". vLLM {version} does not shift target_layer_ids by one (vllm-project/vllm#40727): take 0.22 or later"
    if number == (0, 25):
        return f". vLLM {version} gets nothing from drafters of the speculators format on its V2 runner: take 0.26 or later"
    return ""


def _evidence(measurement: Measurement) -> str:
    phases = measurement.phases
    said = _line(measurement.whole)
    if len(phases) > 1:
        said = "\n  ".join(f"in phase {name} {_line(phase)}" for name, phase in phases.items())
    if "repeated" in phases and phases["repeated"].counted.cache_hits == 0:
        said += (
            "; phase repeated got nothing from the prefix cache and so tells nothing of it (is it off, are the prompts shorter "
            "than its blocks, or does disable_eagle_block_drop need to be set?)"
        )
    return said


def _line(phase: Phase) -> str:
    f = phase.figures()
    said = []
    if f["drafted"]:
        of = f"{f['accepted']} of {f['drafted']} drafted tokens accepted ({f['acceptance_rate']:.1%})"
        said.append(of + (f" in {f['drafts']} drafts" if f["drafts"] else ""))
    if f["per_position"]:
        said.append(f"by position {' '.join(f'{p:.3f}' for p in f['per_position'])}")
    cached = "" if f["cache_hits"] is None else f" ({f['cache_hits']} from the prefix cache)"
    said.append(f"{f['requests']} requests, {f['prompt_tokens']} prompt tokens{cached}")
    said.append(f"{f['tokens']} tokens received, {f['tokens_per_second'] or 0:.1f} a second")
    if phase.foreign > 0.1:
        said.append(f"mixed: {phase.foreign:.0%} of the counted tokens belong to other traffic")
    return "; ".join(said)

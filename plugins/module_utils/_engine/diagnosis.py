# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement: what the figures of a probe say about the drafter, and whether that passes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine.probe import Measurement, Phase


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
class Verdict:
    """verdict: pass, fail, insufficient, no_speculation, unreachable. The rest is for people."""

    verdict: str
    cause: str
    evidence: str
    remedy: str = ""

    @property
    def diagnosis(self) -> str:
        return f"{self.cause}. {self.remedy}".strip()

    @property
    def message(self) -> str:
        lines = [f"{self.verdict}: {self.cause}.", f"Evidence: {self.evidence}."]
        return "\n".join([*lines, f"Remedy: {self.remedy}"] if self.remedy else lines)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What a pattern of figures points to. ill: it is worth a warning even where nothing was demanded."""

    cause: str
    remedy: str = ""
    ill: bool = True


CHECK_CONFIG = "Compare the drafter's config.json with its weights and its published values (drafter_info)."


def figures(phase: Phase) -> dict[str, Any]:
    """What a phase measured, under the names that the module returns."""
    d = phase.drafting
    return {
        "acceptance_length": _round(d.acceptance_length if d else None),
        "acceptance_rate": _round(d.acceptance_rate if d else None),
        "position_0": _round(d.per_position[0] if d and d.per_position else None),
        "per_position": [round(p, 4) for p in d.per_position] if d else [],
        "drafts": round(d.drafts) if d else 0,
        "drafted": round(d.drafted) if d else 0,
        "accepted": round(d.accepted) if d else 0,
        "tokens": phase.tokens,
        "tokens_per_second": _round(phase.tokens / phase.seconds if phase.seconds else None),
        "time_to_first_token": _round(phase.time_to_first_token),
        "requests": len(phase.answers),
        "prompt_tokens": sum(a.prompt_tokens for a in phase.answers),
        "cache_hits": round(phase.cache_hits),
    }


def judge(measurement: Measurement, wanted: Wanted) -> Verdict:
    whole, evidence = measurement.whole, _evidence(measurement)
    drafting = whole.drafting
    if measurement.source is None:
        return Verdict(
            "insufficient",
            "the engine shows no counters",
            f"/metrics holds no vllm:generation_tokens_total; {evidence}",
            "Start it without --disable-log-stats, ask it directly and not through a gateway, or name its log.",
        )
    if drafting is None or not drafting.drafted:
        return Verdict(
            "no_speculation",
            "the engine does not speculate: no draft was made while it answered",
            f"{'its counters are absent' if drafting is None else 'its counters did not move'}; {evidence}",
            "Start the server with --speculative-config (method dflash and the drafter's path), and look in its log "
            "for whether the drafter was loaded.",
        )
    if whole.counted is not None and whole.counted < whole.tokens * 0.98:
        return Verdict(
            "insufficient",
            "the counters are not those of the server that answered",
            f"{whole.counted:.0f} tokens counted, {whole.tokens} received; {evidence}",
            "Probe each server itself, not the balancer in front of several.",
        )
    if _foreign(whole) > 0.5:
        return Verdict(
            "insufficient",
            "most of what was counted is other traffic",
            evidence,
            "Take the traffic off this server first, or send more requests.",
        )
    if drafting.drafts and drafting.drafts < wanted.min_drafts:
        return Verdict(
            "insufficient",
            f"{drafting.drafts:.0f} drafts are too few to judge by (at least {wanted.min_drafts})",
            evidence,
            "Send more requests, raise max_tokens, or lower min_drafts.",
        )
    short = _shortfalls(measurement, wanted)
    pattern = read(measurement)
    if short:
        return Verdict("fail", f"{'; '.join(short)}. {pattern.cause}", evidence, pattern.remedy)
    return Verdict("pass", pattern.cause, evidence, pattern.remedy if pattern.ill else "")


def read(measurement: Measurement) -> Pattern:
    """What the pattern of the figures points to."""
    phases = measurement.phases
    base = phases.get("short") or measurement.whole
    gain = _gain(base)
    repeated, long = phases.get("repeated"), phases.get("long")
    if repeated is not None and repeated is not base and gain > 0.3 and _gain(repeated) < gain / 2:
        return Pattern(
            "Acceptance collapses on prompts that share a prefix with earlier ones: prefix caching",
            "Start the server with --no-enable-prefix-caching.",
        )
    if long is not None and long is not base and gain > 0.3 and _gain(long) < gain / 2:
        return Pattern(
            "Acceptance falls on long contexts only: the drafter's sliding window is lost",
            "Check layer_types, sliding_window, use_sliding_window and max_window_layers in the drafter's config.json, "
            "and that this vLLM honours them.",
        )
    if gain < 0.005:
        return Pattern(
            "Nothing is accepted, not even at position 0: the drafter is wired wrongly (target_layer_ids, their "
            "offset, lm_head, or the layout of the KV cache), whatever the prompts",
            CHECK_CONFIG,
        )
    if gain < 0.3:
        return Pattern(
            "The drafter proposes rubbish: hardly anything is accepted after position 0. Its config.json does not fit "
            "its weights (mask_token_id, target_layer_ids, layer_types, sliding_window or block_size)",
            CHECK_CONFIG,
        )
    if any(a.thinking for a in base.answers):
        return Pattern(
            "The model was thinking; a drafter trained without thinking is accepted less there",
            "Set chat_template_kwargs to {enable_thinking: false} if the drafter was trained so.",
            ill=False,
        )
    return Pattern("The drafter works", ill=False)


def _shortfalls(measurement: Measurement, wanted: Wanted) -> list[str]:
    found = []
    for name, phase in measurement.phases.items():
        measured = figures(phase)
        for key, words, form in (
            ("acceptance_length", "acceptance length", "{:.2f}"),
            ("position_0", "position 0", "{:.1%}"),
            ("acceptance_rate", "acceptance rate", "{:.1%}"),
        ):
            least = getattr(wanted, key)
            if least is not None and (measured[key] is None or measured[key] < least):
                got = "unknown" if measured[key] is None else form.format(measured[key])
                where = f" in phase {name}" if len(measurement.phases) > 1 else ""
                found.append(f"{words} {got}{where}, wanted {form.format(least)}")
    return found + _drops(measurement, wanted)


def _drops(measurement: Measurement, wanted: Wanted) -> list[str]:
    baseline = wanted.baseline or {}
    pairs = {
        f" in phase {name}": (figures(phase), (baseline.get("phases") or {}).get(name))
        for name, phase in measurement.phases.items()
    }
    pairs = {where: pair for where, pair in pairs.items() if pair[1]}
    found: list[str] = []
    for where, (now, then) in (pairs or {"": (figures(measurement.whole), baseline)}).items():
        was, is_ = (then or {}).get("acceptance_length"), now["acceptance_length"]
        if was and is_ is not None and is_ < was * (1 - wanted.max_drop):
            found.append(
                f"acceptance length {is_:.2f}{where} is {1 - is_ / was:.0%} below the baseline of {was:.2f} "
                f"(vLLM {baseline.get('version') or 'unknown'} then, {measurement.version or 'unknown'} now)"
            )
    return found


def _evidence(measurement: Measurement) -> str:
    f = figures(measurement.whole)
    said = f"{f['requests']} requests, {f['tokens']} tokens"
    if f["tokens_per_second"]:
        said += f", {f['tokens_per_second']:.1f} tokens/s"
    if f["drafted"]:
        said += f"; {f['accepted']} of {f['drafted']} drafted tokens accepted ({f['acceptance_rate']:.1%})"
    if f["drafts"]:
        said += f" in {f['drafts']} drafts, acceptance length {f['acceptance_length']:.2f}"
    if f["per_position"]:
        said += f", by position {' '.join(f'{p:.3f}' for p in f['per_position'])}"
    foreign = _foreign(measurement.whole)
    if foreign > 0.02:
        said += f"; {foreign:.0%} of the counted tokens are other traffic, so the figures are mixed"
    return said


def _foreign(phase: Phase) -> float:
    return max(0.0, 1 - phase.tokens / phase.counted) if phase.counted else 0.0


def _gain(phase: Phase) -> float:
    length = phase.drafting.acceptance_length if phase.drafting else None
    return (length or 1) - 1


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

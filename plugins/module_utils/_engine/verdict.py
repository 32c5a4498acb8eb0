# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement: whether the figures of a probe can be judged, and whether they pass."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine import diagnosis
from ansible_collections.llmops.vllm.plugins.module_utils._engine.diagnosis import Pattern
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

    @property
    def judged_by(self) -> list[str]:
        length = "acceptance_length" if self.baseline else None
        return [key for key in LIMITS if getattr(self, key) is not None or key == length]


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
    shortfalls, drops = _shortfalls(measurement, wanted), _drops(measurement, wanted)
    pattern, evidence = diagnosis.read(measurement), _evidence(measurement)
    if shortfalls or drops:
        if not shortfalls and not pattern.ill:
            pattern = diagnosis.regression(measurement, wanted.baseline or {})
        return Verdict("fail", f"The drafter fails: {'; '.join(shortfalls + drops)}", evidence, pattern)
    length = measurement.whole.figures()["acceptance_length"]
    said = "The acceptance length is unknown" if length is None else f"Acceptance length {length:.2f}"
    said += ", as wanted" if wanted.judged_by else ", and no limit was given"
    return Verdict("pass", said, evidence, pattern if pattern.ill else Pattern(""))


def _doubt(measurement: Measurement, wanted: Wanted) -> Verdict | None:
    """Why the figures can't be judged."""
    whole, evidence = measurement.whole, _evidence(measurement)
    drafting, counted = whole.counted.drafting, whole.counted.generated

    def insufficient(says: str, remedy: str) -> Verdict:
        return Verdict("insufficient", f"The probe can't judge: {says}", evidence, Pattern("", remedy))

    if not whole.counted.heard:
        return insufficient(
            f"the engine shows no figures in {measurement.source}",
            "Start it without --disable-log-stats, ask it directly and not through a gateway, or name its log",
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
        unknown = [key for key in wanted.judged_by if figures[key] is None]
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
    baseline = wanted.baseline
    if not baseline:
        return []
    then = {name: figures for name, figures in (baseline.get("phases") or {}).items() if name in measurement.phases}
    pairs = [(f" in phase {name}", measurement.phases[name], figures) for name, figures in then.items()]
    found = []
    for where, phase, figures in pairs or [("", measurement.whole, baseline)]:
        before, now = figures["acceptance_length"], phase.figures()["acceptance_length"]
        if now < before * (1 - wanted.max_drop):
            found.append(
                f"acceptance length {now:.2f}{where} is {1 - now / before:.0%} below the {before:.2f} of the baseline, "
                f"more than {wanted.max_drop:.0%}"
            )
    return found


def _evidence(measurement: Measurement) -> str:
    phases = measurement.phases
    said = _line(measurement.whole)
    if len(phases) > 1:
        said = "\n  ".join(f"in phase {name} {_line(phase)}" for name, phase in phases.items())
    if "repeated" in phases and phases["repeated"].counted.cache_hits == 0:
        said += (
            "; phase repeated got nothing from the prefix cache and so tells nothing of it (is it off, are the prompts "
            "shorter than its blocks, or does disable_eagle_block_drop need to be set?)"
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

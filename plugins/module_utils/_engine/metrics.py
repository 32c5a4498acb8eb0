# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine counts: the text of /metrics and the SpecDecoding lines of its log, read as the same figures."""

from __future__ import annotations

import dataclasses
import re

SPEC = "vllm:spec_decode_num_"


@dataclasses.dataclass(frozen=True)
class Drafting:
    """How often the drafter proposed, how many tokens, and how many of them the target took."""

    drafts: float = 0
    drafted: float = 0
    accepted: float = 0
    accepted_at: tuple[float, ...] = ()

    @property
    def acceptance_length(self) -> float | None:
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def per_position(self) -> tuple[float, ...]:
        return tuple(n / self.drafts for n in self.accepted_at) if self.drafts else ()

    def __add__(self, other: Drafting) -> Drafting:
        return self._each(other, 1)

    def __sub__(self, other: Drafting) -> Drafting:
        return self._each(other, -1)

    def _each(self, other: Drafting, sign: int) -> Drafting:
        length = max(len(self.accepted_at), len(other.accepted_at))
        mine, theirs = (d.accepted_at + (0.0,) * (length - len(d.accepted_at)) for d in (self, other))
        return Drafting(
            self.drafts + sign * other.drafts,
            self.drafted + sign * other.drafted,
            self.accepted + sign * other.accepted,
            tuple(a + sign * b for a, b in zip(mine, theirs)),
        )


@dataclasses.dataclass(frozen=True)
class Counters:
    """What the engine counted, all its data-parallel parts together.

    drafting: None if it doesn't speculate. generated, cache_hits: None if it doesn't say. heard: whether it shows figures.
    """

    drafting: Drafting | None = None
    generated: float | None = None
    cache_hits: float | None = None
    heard: bool = False
    asleep: bool = False
    started: float | None = None

    def __add__(self, other: Counters) -> Counters:
        drafting = [c.drafting for c in (self, other) if c.drafting]
        return Counters(
            sum(drafting, Drafting()) if drafting else None,
            _sum(self.generated, other.generated),
            _sum(self.cache_hits, other.cache_hits),
            self.heard or other.heard,
        )


def _sum(*values: float | None) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


class CountersResetError(Exception):
    """The server was restarted between two readings."""


_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read(text: str) -> Counters:
    """The counters in a text of the Prometheus format; lines of other programs and torn lines count for nothing."""
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    asleep = False
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        name, labels = sample.group(1), dict(_LABEL.findall(sample.group(2) or ""))
        try:
            value = float(sample.group(3))
        except ValueError:
            continue
        if name == SPEC + "accepted_tokens_per_pos_total" and labels.get("position", "").isdigit():
            positions[int(labels["position"])] = positions.get(int(labels["position"]), 0) + value
        elif name == "vllm:engine_sleep_state":
            asleep = asleep or (labels.get("sleep_state") == "awake" and value == 0)
        else:
            sums[name] = sums.get(name, 0) + value
    drafting = None
    if SPEC + "drafts_total" in sums:
        drafting = Drafting(
            sums[SPEC + "drafts_total"],
            sums.get(SPEC + "draft_tokens_total", 0),
            sums.get(SPEC + "accepted_tokens_total", 0),
            tuple(positions.get(i, 0) for i in range(max(positions, default=-1) + 1)),
        )
    generated = sums.get("vllm:generation_tokens_total")
    return Counters(
        drafting,
        generated,
        sums.get("vllm:prefix_cache_hits_total"),
        generated is not None,
        asleep,
        sums.get("process_start_time_seconds"),
    )


def delta(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings."""
    if before.started != after.started:
        raise CountersResetError("/metrics names another start time than before")
    drafting = after.drafting - (before.drafting or Drafting()) if after.drafting else None
    generated = None if after.generated is None else after.generated - (before.generated or 0)
    hits = None if after.cache_hits is None else after.cache_hits - (before.cache_hits or 0)
    moved = [generated or 0, *([drafting.drafts, drafting.drafted, drafting.accepted] if drafting else [])]
    if min(moved) < 0 or (before.drafting and not after.drafting):
        raise CountersResetError("The counters in /metrics went back")
    return Counters(drafting, generated, hits, after.heard)


_FIELDS = {
    "accepted": re.compile(r"\bAccepted: (\d+) tokens"),
    "drafted": re.compile(r"\bDrafted: (\d+) tokens"),
    "length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "depth": re.compile(r"Current speculative depth: (\d+)"),
}
_PER_POSITION = re.compile(r"Per-position acceptance rate: (\d[\d.]*(?:, \d[\d.]*)*)")


def read_line(line: str) -> Drafting | None:
    """The figures of one log line about speculative decoding, of any era of vLLM; None for every other line.

    A line says how many tokens were drafted, not how many drafts there were. A draft is as long as there are positions;
    where a line doesn't name those either, the mean length tells; the oldest lines leave it open, and then drafts is 0.
    """
    found = {key: match.group(1) for key, match in ((k, p.search(line)) for k, p in _FIELDS.items()) if match}
    if "acceptance" not in line or "accepted" not in found or "drafted" not in found:
        return None
    accepted, drafted = float(found["accepted"]), float(found["drafted"])
    listed = _PER_POSITION.search(line)
    rates = [float(r) for r in listed.group(1).split(", ")] if listed else []
    depth = int(found.get("depth", 0)) or len(rates)
    if depth:
        drafts = drafted / depth
    elif float(found.get("length", 1)) > 1:
        drafts = accepted / (float(found["length"]) - 1)
    else:
        drafts = 0.0
    return Drafting(drafts, drafted, accepted, tuple(r * drafts for r in rates))


_THROUGHPUT = re.compile(r"generation throughput: (?!0\.0 )\d")


def read_log(text: str) -> Counters:
    """The sum over the complete lines of a log."""
    lines = text[: text.rfind("\n") + 1].splitlines()
    found = [d for d in map(read_line, lines) if d is not None]
    if not found:
        return Counters(heard=any(_THROUGHPUT.search(line) for line in lines))
    drafting = sum(found, Drafting())
    # A draft gives its accepted tokens and one more.
    return Counters(drafting, drafting.drafts + drafting.accepted if drafting.drafts else None, heard=True)

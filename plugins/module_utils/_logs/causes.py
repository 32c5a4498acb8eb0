# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of all that went wrong, the trouble at the root."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.tracebacks import Block

RANKS = ("stated", "fatal", "line", "exception", "end", "wrapper", "announcement", "error")
"""From the best witness to the weakest.

stated: a line that the user calls a failure. fatal: an exception that ended its process. line: a fatal line that tells a cause.
exception: one that was logged, and perhaps survived. end: a line that says how a process ended. wrapper: an exception that only
passes on another. announcement: a line that says no more than that something failed. error: any line at level ERROR.
"""
LAST = ("exception", "error")
"""Of these the last one counts, as the nearest to the end; of the others the first, since what follows is its echo."""


@dataclasses.dataclass
class Trouble:
    """number: of the line that tells it; start: of the first line of its record; after: the exception that led to it."""

    number: int
    start: int
    process: str
    text: str
    rank: str
    kind: str
    hint: str
    context: list[str]
    after: str = ""


@functools.lru_cache(maxsize=64)  # what fails again and again says the same
def explain(text: str) -> Pattern | None:
    """The known cause that a text tells of."""
    return next((p for p in patterns.CAUSES if p.regex.search(text)), None)


@functools.lru_cache(maxsize=64)
def is_wrapper(text: str) -> bool:
    return any(p.regex.search(text) for p in patterns.WRAPPERS)


def from_block(block: Block) -> Trouble:
    """The exception that a traceback ends in; an earlier one of its chain where only that one tells something."""
    said = [*block.earlier, ("\n".join(block.text).rstrip(), block.at)]
    telling = [s for s in said if not is_wrapper(s[0])]
    known = [s for s in telling if explain(s[0])]
    text, number = best = (known or telling or said)[-1]
    before = telling[: telling.index(best)] if best in telling else []
    cause = explain(text)
    rank = "wrapper" if not telling else "fatal" if block.announced or block.uncaught else "exception"
    kind = cause.kind if cause else "exception"
    return Trouble(
        number,
        block.start,
        block.process,
        text,
        rank,
        kind,
        cause.hint if cause else "",
        block.lines,
        before[-1][0] if before else "",
    )


def root(troubles: Iterable[Trouble]) -> Trouble | None:
    found = list(troubles)
    for rank in RANKS:
        those = [t for t in found if t.rank == rank]
        if those:
            return (max if rank in LAST else min)(those, key=lambda t: t.start)
    return None

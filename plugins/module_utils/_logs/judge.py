# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a log line by line and knows at every moment what it says: ready, failed and why, stopped, or nothing yet.

What a judge knows is plain data, so that a wait may be cut anywhere and go on in another process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._logs import causes, patterns, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs.causes import Trouble
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import Line, parse
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Progress, Stage
from ansible_collections.llmops.vllm.plugins.module_utils._logs.tracebacks import Block, Tracebacks

CALM = ("DEBUG", "INFO", "WARNING")
MOST = 40
"""So many troubles are kept: who failed more often than that has failed."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """What counts as what: the user's patterns, and those of vLLM unless they are switched off."""

    ready: Sequence[Pattern] = ()
    failed: Sequence[Pattern] = ()
    ignore: Sequence[Pattern] = ()
    stages: Sequence[Stage] = ()
    vllm: bool = True


@dataclasses.dataclass
class Match:
    """A line that decided something."""

    line: str
    number: int
    text: str


class Judge:
    def __init__(self, profile: Profile, context: int = 10) -> None:
        self.profile = profile
        self.context = context
        self.lines = 0
        self.ready: Match | None = None
        self.failed: Match | None = None
        self.stopping: Match | None = None
        self.progress = Progress(profile.stages, profile.vllm)
        self.notes: list[str] = []
        self.troubles: list[Trouble] = []
        self.tracebacks = Tracebacks(context)
        self.moved = False
        """Whether a line came that says something new; who reads it sets it back."""
        self.recent: list[str] = []
        self._record: dict[
            str, tuple[str, bool]
        ] = {}  # by process: the head of its last alarm, and whether it was fatal
        self._signature = ""  # whose traceback comes next without one: "Process EngineCore:"
        self._said = ""
        known = patterns if profile.vllm else None
        self._ready = [*profile.ready, *(known.READY if known else ())]
        self._ignore = [*profile.ignore, *(known.BENIGN if known else ())]

    # --- state ---------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What it knows, for a judge that goes on elsewhere."""
        return {
            "lines": self.lines,
            **{name: m and dataclasses.asdict(m) for name, m in self._decisions().items()},
            "progress": self.progress.dump(),
            "notes": self.notes,
            "troubles": [dataclasses.asdict(t) for t in self.troubles],
            "open": {p: dataclasses.asdict(b) for p, b in self.tracebacks.open.items()},
            "recent": self.recent,
            "record": self._record,
            "signature": self._signature,
            "said": self._said,
        }

    def load(self, known: dict[str, Any]) -> None:
        self.lines = known["lines"]
        self.ready, self.failed, self.stopping = (
            Match(**known[name]) if known[name] else None for name in ("ready", "failed", "stopping")
        )
        self.progress.load(known["progress"])
        self.notes = known["notes"]
        self.troubles = [Trouble(**t) for t in known["troubles"]]
        self.tracebacks.open = {p: Block(**b) for p, b in known["open"].items()}
        self.recent = known["recent"]
        self._record = {p: (head, fatal) for p, (head, fatal) in known["record"].items()}
        self._signature, self._said = known["signature"], known["said"]

    def _decisions(self) -> dict[str, Match | None]:
        return {"ready": self.ready, "failed": self.failed, "stopping": self.stopping}

    @property
    def decided(self) -> bool:
        return bool(self.ready or self.failed or self.stopping)

    # --- lines ---------------------------------------------------------------------------------------------------

    def see(self, line: Line, now: float) -> None:
        """One more line; now: seconds since the wait began."""
        self.lines = line.number
        if self.context:
            self.recent.append(line.raw[:400])
            del self.recent[: -self.context]
        if self.profile.vllm and self.tracebacks.take(line):
            self._uncaught(line)
        elif line.text:
            self._fresh(line, now)
        self._collect()

    def last_words(self) -> None:
        """What a shell says of a program that it saw crash matters only as the last words of a log."""
        for raw in self.recent[-3:]:
            line = parse(self.lines, raw.encode())
            cause = causes.explain(line.text)
            if self.profile.vllm and cause and cause.kind in ("killed", "crashed") and _any(patterns.FATAL, line):
                self._fail(line)
                self._trouble(line, line.text, "end", cause)

    def skip(self, count: int, last: Iterable[str]) -> None:
        """Lines that can't matter went by; the last of them are context for what follows."""
        self.lines += count
        self.moved = True
        if self.context:
            self.recent.extend(text[:400] for text in last)
            del self.recent[: -self.context]

    def _fresh(self, line: Line, now: float) -> None:
        if line.text != self._said and not any(p.regex.search(line.text) for p in patterns.IDLE):
            self.moved = True
        self._said = line.text[:400]
        if _any(self._ignore, line):
            self._record[line.process] = (line.head, False)
            return
        stated = _any(self.profile.failed, line)
        if stated:
            match = stated.regex.search(line.text) or stated.regex.search(line.raw)
            said = match[1] if match and match.re.groups and match[1] else line.text
            self._fail(line)
            self._trouble(line, said, "stated", stated)
            return
        if not self.ready:
            self.progress.see(line, now)
            if _any(self._ready, line):
                self.ready = _match(line)
                self.progress.enter("ready", now)
                self.troubles = []  # whatever went wrong before did no harm
                self.tracebacks.clear()
                return
        if self.profile.vllm:
            if line.level in CALM or not line.level:
                self._calm(line)
            if line.level not in CALM and not self.stopping:
                self._alarm(line)
            elif tracebacks.BEGIN in line.text:
                self.tracebacks.begin(line, "", False)

    def _calm(self, line: Line) -> None:
        if not self.stopping and _any(patterns.UNDERSTATED, line):
            self._fail(line)
            self._trouble(line, line.text, "end", causes.explain(line.text))
        elif self.decided and patterns.LAUNCH.regex.search(line.text):
            self.ready = self.failed = self.stopping = None
            self.troubles, self._record = [], {}
            self.tracebacks.clear()
            self.progress.restart()
            self.notes.append("Another launch begins in this log; what was written before it was set aside.")
        elif not self.failed and not self.stopping and _any(patterns.STOPPING, line):
            self.stopping = _match(line)

    def _alarm(self, line: Line) -> None:
        text = line.text
        if not line.process and patterns.PROCESS.regex.match(text):
            self._signature = text[len("Process ") : -1]
            self._record[""] = (line.head, True)
            return
        fatal = _any(patterns.FATAL, line)
        cause = causes.explain(text) if fatal or line.level else None
        begins = tracebacks.BEGIN in text
        announced = bool(fatal or _any(patterns.TROUBLE, line))
        if fatal:
            self._fail(line)
            rank = "announcement" if not cause else "end" if cause.kind in patterns.ENDS else "line"
            self._trouble(line, text, rank, cause)
        elif line.level and not begins:
            self._trouble(line, text, "error", cause)
        if begins:
            head, was = self._record.get(line.process, ("", False))
            announced = announced or (was and head == line.head)
            self.tracebacks.begin(line, "" if line.process else self._signature, announced)
            self._signature = ""
        self._record[line.process] = (line.head, announced)

    def _uncaught(self, line: Line) -> None:
        """An exception that nobody caught ends its process, whoever announces it."""
        block = self.tracebacks.open[line.process]
        if block.at == line.number and block.uncaught and not self.stopping:
            if _any(patterns.STOPPING, line):
                self.stopping = None if self.failed else _match(line)
            else:
                self._fail(line)

    # --- what it comes to ----------------------------------------------------------------------------------------

    def cause(self) -> Trouble | None:
        """The trouble at the root of all the others."""
        return causes.root(
            [*self.troubles, *(causes.from_block(b) for b in self.tracebacks.exceptions() if _counts(b))]
        )

    def _fail(self, line: Line) -> None:
        if not self.failed and not self.stopping:
            self.failed = _match(line)

    def _trouble(self, line: Line, text: str, rank: str, cause: Pattern | None) -> None:
        kind, hint = (cause.kind, cause.hint) if cause else ("error", "")
        self._add(Trouble(line.number, line.number, line.process, text, rank, kind, hint, list(self.recent)))

    def _collect(self) -> None:
        while self.tracebacks.done:
            block = self.tracebacks.done.pop(0)
            if _counts(block) and not self.stopping:
                self._add(causes.from_block(block))

    def _add(self, trouble: Trouble) -> None:
        if len(self.troubles) >= MOST:
            weakest = max(self.troubles, key=lambda t: causes.RANKS.index(t.rank))
            if weakest.rank not in causes.LAST:
                return
            self.troubles.remove(weakest)
        self.troubles.append(trouble)


def _any(those: Iterable[Pattern], line: Line) -> Pattern | None:
    """The first pattern that finds itself in the line's text; the user's may also look at the whole line."""
    return next((p for p in those if p.regex.search(line.text) or (p.raw and p.regex.search(line.raw))), None)


def _counts(block: Block) -> bool:
    return block.level not in CALM


def _match(line: Line) -> Match:
    return Match(line.raw[:2000], line.number, line.text[:2000])

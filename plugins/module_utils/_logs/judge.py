# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a log line by line and knows at every moment what it says: ready, failed and why, stopped, or nothing yet.

What a judge knows is plain data, so that a wait may be cut anywhere and go on in another process.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._logs import causes, patterns, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs.causes import Trouble
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import Line, parse
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import CALM, TELLING, Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Progress
from ansible_collections.llmops.vllm.plugins.module_utils._logs.tracebacks import Block, Tracebacks

LONG = 400
"""So much is kept of a line as context."""
LONGEST = 2000
"""So much is kept of a line that tells something."""


@dataclasses.dataclass
class Match:
    """A line that decided something."""

    line: str
    number: int
    text: str


class Judge:
    """Sees lines, one after the other; see `ready`, `failed`, `stopping`, `cause()` and `progress` for what they come to."""

    def __init__(self, profile: Profile, context: int = 10) -> None:
        self.profile = profile
        self.context = context
        self.lines = 0
        self.ready: Match | None = None
        self.failed: Match | None = None
        self.stopping: Match | None = None
        self.progress = Progress(profile.stages, profile.vllm)
        self.notes: list[str] = []
        self.troubles: dict[str, Trouble] = {}
        """By rank, the one that counts."""
        self.tracebacks = Tracebacks(context)
        self.launched = False
        """Whether a launch was seen to begin."""
        self.moved = False
        """Whether a line came that says something new; who reads it sets it back."""
        self.recent: deque[str] = deque(maxlen=max(context, 2))
        self._record: dict[str, tuple[str, bool | None]] = {}
        """By process, its last record above INFO: its head, and whether it was fatal; None if it means nothing."""
        self._said = ""
        self._ready = [*profile.ready, *(patterns.READY if profile.vllm else ())]
        self._ignore = [*profile.ignore, *(patterns.BENIGN if profile.vllm else ())]

    # --- state ---------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What it knows, for a judge that goes on elsewhere."""
        return {
            "lines": self.lines,
            "launched": self.launched,
            **{name: m and dataclasses.asdict(m) for name, m in self._decisions().items()},
            "progress": self.progress.dump(),
            "notes": self.notes,
            "troubles": [dataclasses.asdict(t) for t in self.troubles.values()],
            "open": {p: dataclasses.asdict(b) for p, b in self.tracebacks.open.items()},
            "recent": list(self.recent),
            "record": self._record,
            "said": self._said,
        }

    def load(self, known: dict[str, Any]) -> None:
        self.lines, self.launched = known["lines"], known["launched"]
        self.ready, self.failed, self.stopping = (
            Match(**known[name]) if known[name] else None for name in ("ready", "failed", "stopping")
        )
        self.progress.load(known["progress"])
        self.notes = known["notes"]
        self.troubles = {t["rank"]: Trouble(**t) for t in known["troubles"]}
        self.tracebacks.open = {
            p: Block(**{**b, "earlier": [tuple(e) for e in b["earlier"]]}) for p, b in known["open"].items()
        }
        self.recent.extend(known["recent"])
        self._record = {p: (head, fatal) for p, (head, fatal) in known["record"].items()}
        self._said = known["said"]

    def _decisions(self) -> dict[str, Match | None]:
        return {"ready": self.ready, "failed": self.failed, "stopping": self.stopping}

    @property
    def closed(self) -> bool:
        """Whether nothing can change what it has to say, unless another launch begins."""
        if self.stopping or not self.failed:
            return self.stopping is not None
        best = "stated" if self.profile.failed else "fatal"
        roots = [self.troubles[rank].start for rank in ("stated", best) if rank in self.troubles]
        return bool(roots) and all(b.start > min(roots) for b in self.tracebacks.open.values())

    @property
    def decided(self) -> bool:
        return bool(self.ready or self.failed or self.stopping)

    # --- lines ---------------------------------------------------------------------------------------------------

    def see(self, line: Line, now: float) -> None:
        """One more line; now: seconds since the wait began."""
        self.lines = line.number
        self.recent.append(line.raw[:LONG])
        if line.stamp:
            self.progress.stamp = line.stamp
        if self.begins(line):
            if self.launched or self.decided:
                self._set_aside(line)
            self.progress.stages = []  # of Ray, which a head starts before
            self.launched = True
        if self.profile.vllm and self.tracebacks.take(line):
            self._uncaught(line)
        elif line.text:
            if line.text[:LONG] != self._said:
                self._said = line.text[:LONG]
                self.moved = self.moved or not _any(patterns.IDLE, line)
            if not self.profile.plain or line.level not in CALM or TELLING.match(line.text):
                self._fresh(line, now)
        if self.tracebacks.done:
            self._collect()

    def see_frames(self, raws: list[str], head: int) -> None:
        """More lines, known to be frames of the only open traceback. head: so many characters stand before each."""
        self.lines += len(raws)
        self.recent.extend(raw[:LONG] for raw in raws[-(self.recent.maxlen or 0) :])
        self.tracebacks.take_frames([raw[head:] for raw in raws], self.lines)

    def begins(self, line: Line) -> bool:
        """Whether a launch begins with this line."""
        calm = line.level in CALM or not line.level
        return self.profile.vllm and calm and bool(patterns.LAUNCH.regex.match(line.text))

    def last_lines(self) -> list[str]:
        return list(self.recent)[-self.context :] if self.context else []

    def last_words(self) -> None:
        """What only a program or its shell says at the end: nobody looks for that in what is skipped."""
        first = self.lines - len(self.recent) + 1
        for number, raw in enumerate(list(self.recent), first):
            line = parse(number, raw.encode())
            cause = causes.explain(line.text)
            if self.profile.vllm and cause and line.level not in CALM and _any(patterns.FATAL, line):
                self._fail(line)
                self._trouble(line, line.text, "end" if cause.kind in patterns.ENDS else "line", cause)

    def skip(self, count: int, last: Iterable[str]) -> None:
        """Lines that can't matter went by; the last of them are context for what follows."""
        self.lines += count
        self.moved = True
        self.recent.extend(text[:LONG] for text in last)

    def _fresh(self, line: Line, now: float) -> None:
        if _any(self._ignore, line):
            self._record[line.process] = (line.head, None)
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
                self.troubles = {}  # whatever went wrong before did no harm
                self.tracebacks.clear()
                return
        if self.profile.vllm:
            if line.level in CALM or not line.level:
                self._calm(line)
            if line.level not in CALM and not self.stopping:
                self._alarm(line)
            elif tracebacks.BEGIN in line.text:
                self.tracebacks.begin(line, ignored=True)

    def _calm(self, line: Line) -> None:
        if not self.stopping and _any(patterns.UNDERSTATED, line):
            self._fail(line)
            self._trouble(line, line.text, "end", causes.explain(line.text))
        elif not self.failed and not self.stopping and _any(patterns.STOPPING, line):
            self.stopping = _match(line)

    def _set_aside(self, line: Line) -> None:
        """Another launch begins: nothing of what was said before counts."""
        self.ready = self.failed = self.stopping = None
        self.troubles, self._record = {}, {}
        self.tracebacks.clear()
        self.progress.restart(line.stamp)
        self.recent.clear()
        self.recent.append(line.raw[:LONG])
        self.notes = ["Another launch begins in this log; what was written before it was set aside."]

    def _alarm(self, line: Line) -> None:
        text = line.text
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
            signature, of_fatal, of_nothing = self._introduction(line)
            self.tracebacks.begin(line, signature=signature, announced=announced or of_fatal, ignored=of_nothing)
        self._record[line.process] = (line.head, announced)

    def _introduction(self, line: Line) -> tuple[str, bool, bool]:
        """Of a traceback that begins: whose it is, if it is not signed, and whether it goes on with what is fatal, or nothing."""
        if line.level:
            head, fatal = self._record.get(line.process, ("", False))
            return "", head == line.head and fatal is True, head == line.head and fatal is None
        before = parse(0, self.recent[-2].encode()) if len(self.recent) > 1 else line
        if before.process != line.process:
            return "", False, False
        named = patterns.PROCESS.regex.match(before.text)
        return named[1] if named else "", bool(named or _any(patterns.FATAL, before)), bool(_any(self._ignore, before))

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
            [*self.troubles.values(), *(causes.from_block(b) for b in self.tracebacks.exceptions() if _counts(b))]
        )

    def _fail(self, line: Line) -> None:
        if not self.failed and not self.stopping:
            self.failed = _match(line)

    def _trouble(self, line: Line, text: str, rank: str, cause: Pattern | None) -> None:
        kind, hint = (cause.kind, cause.hint) if cause else ("error", "")
        self._add(Trouble(line.number, line.number, line.process, text[:LONGEST], rank, kind, hint, self.last_lines()))

    def _collect(self) -> None:
        while self.tracebacks.done:
            block = self.tracebacks.done.pop(0)
            if _counts(block) and not self.stopping:
                self._add(causes.from_block(block))

    def _add(self, trouble: Trouble) -> None:
        rival = self.troubles.get(trouble.rank)
        self.troubles[trouble.rank] = (causes.root([rival, trouble]) or trouble) if rival else trouble


def _any(those: Iterable[Pattern], line: Line) -> Pattern | None:
    """The first pattern that finds itself in the line's text; the user's may also look at the whole line."""
    return next((p for p in those if p.regex.search(line.text) or (p.raw and p.regex.search(line.raw))), None)


def _counts(block: Block) -> bool:
    return not block.ignored and block.level not in CALM


def _match(line: Line) -> Match:
    return Match(line.raw[:LONGEST], line.number, line.text[:LONGEST])

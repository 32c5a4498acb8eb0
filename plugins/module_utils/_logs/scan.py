# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From bytes as they come to lines as they are judged.

A start's first megabytes are read line by line. What comes after them, or after the ready line, is searched for the few words
that a line of any consequence must hold, and only those lines are looked at.
"""

from __future__ import annotations

import copy

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import LONGEST, parse

ATTENTIVE = 2 * 1024 * 1024
"""So many bytes of a start are read line by line: the stages and facts are in there, or nowhere."""
LAST = 16 * 1024
"""Of what is skipped, the last lines are kept as context, as far as they lie in so many bytes."""
NOWHERE = 1 << 62


class Scanner:
    """Cuts bytes into lines for a judge; what comes of it does not depend on how the bytes were cut before.

    attentive: so many bytes are read line by line, all for -1; seen: those that were read before.
    """

    def __init__(self, judge: Judge, attentive: int = ATTENTIVE, seen: int = 0) -> None:
        self.judge = judge
        self.attentive = attentive
        self.seen = seen
        self.rest = b""
        self._anchors, self._anchors_when_ready = (judge.profile.anchors(ready) for ready in (False, True))

    def feed(self, data: bytes, now: float) -> None:
        data = self.rest + data if self.rest else data
        end = data.rfind(b"\n") + 1
        self._lines(data, end, now)
        self.rest = data[end:]
        while len(self.rest) > LONGEST:
            self._line(self.rest[:LONGEST], now, ended=False)
            self.rest = self.rest[LONGEST:]

    def turn(self, now: float) -> None:
        """The bytes that follow are those of another file."""
        if self.rest:
            self._line(self.rest, now)
        self.rest = b""
        self.judge.lines = 0

    def glance(self, now: float) -> Judge | None:
        """What the judge would say if the last line were finished as it stands; None if there is none unfinished."""
        if not self.rest:
            return None
        other = copy.deepcopy(self.judge)
        Scanner(other)._line(self.rest, now)
        return other

    def _lines(self, data: bytes, end: int, now: float) -> None:
        at = 0
        until = 0  # look at everything up to here
        found = dict.fromkeys(self._anchors, -1)
        while at < end:
            if at >= until and not self._attentive(at):
                nearest = NOWHERE
                for anchor in self._wanted():
                    if found[anchor] < at:
                        where = data.find(anchor, at, end)
                        found[anchor] = where if where >= 0 else NOWHERE
                    nearest = min(nearest, found[anchor])
                if nearest == NOWHERE:
                    self._skip(data, at, end)
                    break
                start = data.rfind(b"\n", at, nearest) + 1 or at
                self._skip(data, at, start)
                at, until = start, nearest + 1
            line_end = data.index(b"\n", at)
            self._line(data[at:line_end], now)
            at = line_end + 1
        self.seen += end

    def _wanted(self) -> tuple[bytes, ...]:
        if self.judge.closed:
            return patterns.ANEW
        return self._anchors_when_ready if self.judge.ready else self._anchors

    def _attentive(self, at: int) -> bool:
        if self.attentive < 0 or not self._anchors:
            return True
        if self.judge.closed:
            return False
        return bool(self.judge.tracebacks.open) or (not self.judge.ready and self.seen + at < self.attentive)

    def _skip(self, data: bytes, at: int, end: int) -> None:
        if end > at:
            kept = self.judge.recent.maxlen or 0
            last = data[max(at, end - LAST) : end - 1].rsplit(b"\n", kept)[-kept:]
            self.judge.skip(data.count(b"\n", at, end), [raw.decode("utf-8", "replace") for raw in last])

    def _line(self, raw: bytes, now: float, ended: bool = True) -> None:
        """One line, or a piece of one that has not ended. A progress bar rewrites itself: its states are lines in one."""
        number = self.judge.lines + 1
        for at in range(0, len(raw) or 1, LONGEST):
            for part in raw[at : at + LONGEST].split(b"\r") if b"\r" in raw else [raw[at : at + LONGEST]]:
                if part or not raw:
                    self.judge.see(parse(number, part), now)
        self.judge.lines = number if ended else number - 1

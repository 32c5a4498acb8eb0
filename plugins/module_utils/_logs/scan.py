# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From bytes as they come to lines as they are judged.

A start's first megabytes are read line by line. What comes after them, or after the ready line, is searched for the few words
that a line of any consequence must hold, and only those lines are looked at. Of what one launch wrote nothing counts once another
has begun.
"""

from __future__ import annotations

import copy

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import LONGEST, parse, plain

ATTENTIVE = 2 * 1024 * 1024
"""So many bytes of a start are read line by line: the stages and facts are in there, or nowhere."""
LAST = 16 * 1024
"""Of what is skipped, the last lines are kept as context, as far as they lie in so many bytes."""
NOWHERE = 1 << 62


class Scanner:
    """Cuts bytes into lines for a judge; what comes of it does not depend on how the bytes were cut before.

    attentive: so many bytes of a launch are read line by line, all for -1; seen: those that were read before.
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
        first = min(_find(data, word, 0, end) for word in patterns.ANEW)
        launches = self._last_launches(data, first, end)
        start = launches[0] if launches else 0
        if len(launches) > 1 or (launches and (self.judge.launched or self.judge.decided)):
            self._skip(data, 0, start)
            self.judge.launched = True
        else:
            self._through(data, 0, start, first, now)
        if launches:
            self.seen = -start
        self._through(data, start, end, first, now)
        self.seen += end

    def _last_launches(self, data: bytes, first: int, end: int) -> list[int]:
        """Where the last two launches in the data begin, the very last first. first: where the word of one stands first."""
        starts: list[int] = []
        while len(starts) < 2 and first < end:
            word = max(data.rfind(word, first, end) for word in patterns.ANEW)
            if word < 0:
                break
            end = data.rfind(b"\n", 0, word) + 1
            if self.judge.begins(parse(0, data[end : data.index(b"\n", word)])):
                starts.append(end)
        return starts

    def _through(self, data: bytes, at: int, end: int, first: int, now: float) -> None:
        """Line by line, or from one line of consequence to the next. first: as above."""
        until = 0  # look at everything up to here
        found = {**dict.fromkeys(self._anchors, -1), **dict.fromkeys(patterns.ANEW, first)}
        while at < end:
            if at >= until and not self._attentive(at):
                nearest = NOWHERE
                for anchor in self._wanted():
                    if found[anchor] < at:
                        found[anchor] = _find(data, anchor, at, end)
                    nearest = min(nearest, found[anchor])
                if nearest >= end:
                    self._skip(data, at, end)
                    break
                start = data.rfind(b"\n", at, nearest) + 1 or at
                self._skip(data, at, start)
                at, until = start, nearest + 1
            line_end = data.index(b"\n", at)
            self._line(data[at:line_end], now)
            at = self._frames(data, line_end + 1, end) if self.judge.tracebacks.open else line_end + 1

    def _frames(self, data: bytes, begin: int, end: int) -> int:
        """Past what is plainly more frames of the traceback that the line before belongs to: most of a failing log is that."""
        head = self.judge.tracebacks.head(self.judge.lines)
        if head is None:
            return begin
        start, at, stop = head.encode(), begin, min(begin + LONGEST, end)
        colour = data.find(b"\x1b", begin, stop)
        stop = colour if colour >= 0 else stop
        while at < stop and data.startswith(start, at) and data[at + len(start)] in tracebacks.FRAME:
            line_end = data.find(b"\n", at, stop)
            if line_end < 0 or data.find(b"\r", at, line_end - 1) >= 0:
                break
            at = line_end + 1
        if at > begin:
            frames = data[begin:at].decode("utf-8", "replace").replace("\r\n", "\n")
            self.judge.see_frames(frames.split("\n")[:-1], len(head))
        return at

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
            self.judge.skip(data.count(b"\n", at, end), [plain(_parts(raw)[-1]) for raw in last])

    def _line(self, raw: bytes, now: float, ended: bool = True) -> None:
        """One line, or a piece of one that has not ended."""
        number = self.judge.lines + 1
        for part in _parts(raw):
            self.judge.see(parse(number, part), now)
        self.judge.lines = number if ended else number - 1


def _parts(raw: bytes) -> list[bytes]:
    """What is judged of a line. A progress bar rewrites itself: its states are lines in one."""
    if len(raw) <= LONGEST and b"\r" not in raw:
        return [raw]
    pieces = [raw[at : at + LONGEST] for at in range(0, len(raw), LONGEST)]
    return [part for piece in pieces for part in piece.split(b"\r") if part] or [b""]


def _find(data: bytes, word: bytes, at: int, end: int) -> int:
    where = data.find(word, at, end)
    return where if where >= 0 else NOWHERE

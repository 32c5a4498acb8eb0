# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait itself: read, judge, look after the process, until something is decided."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Protocol

from ansible_collections.llmops.vllm.plugins.module_utils._host.processes import Exit
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge, Match
from ansible_collections.llmops.vllm.plugins.module_utils._logs.probe import Probe
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import ATTENTIVE, Scanner
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker

SETTLED = 1.0
"""After a fatal line: so long without a new byte, and all that the processes had to say is said."""
NOW = 60.0
"""To judge what is there, so long at most: a log may grow faster than it is read."""
NEWS = 5.0
"""A part of a wait may end so many seconds after it began, if the log has come to another stage."""
UNSETTLED = 10.0
"""After a fatal line: so long at most, whatever they go on saying."""


class Source(Protocol):
    """Where the log comes from: a file or a journal."""

    generation: int
    tail: bytes
    lag: float
    notes: list[str]

    @property
    def stream(self) -> int: ...

    @property
    def found(self) -> bool: ...

    def read(self) -> bytes: ...

    def mark(self, unread: int = 0) -> dict[str, Any]: ...

    def lines_before(self, offset: int) -> int: ...

    def settle(self) -> None: ...


class Life(Protocol):
    """What runs the server: a process or a unit."""

    pid: int

    def dead(self) -> bool: ...

    def ended(self) -> Exit | None: ...

    def stopped(self) -> bool: ...

    def notes(self) -> list[str]: ...

    def missing(self, now: float) -> str: ...

    def dump(self) -> dict[str, Any]: ...

    def load(self, known: dict[str, Any]) -> None: ...


@dataclasses.dataclass(frozen=True)
class Limits:
    """In seconds since the wait began. slice: where this part of the wait ends at the latest; another one goes on from there."""

    timeout: float
    stall: float | None = None
    slice: float | None = None


class Wait:
    """A wait, or a part of one: what `dump` gives, `load` goes on from."""

    def __init__(
        self,
        source: Source,
        judge: Judge,
        life: Life,
        waker: Waker,
        limits: Limits,
        *,
        probe: Probe | None = None,
        elapsed: float = 0.0,
    ) -> None:
        self.source, self.judge, self.life, self.waker, self.limits, self.probe = (
            source,
            judge,
            life,
            waker,
            limits,
            probe,
        )
        self.scanner = Scanner(judge, -1 if limits.stall else ATTENTIVE)
        self.began = time.monotonic() - elapsed
        self._news = elapsed + NEWS  # before, there is no telling of another stage
        self._told = ""
        self.bytes = 0
        self.appeared = False
        self.dead = False
        self.exit: Exit | None = None
        self.missing = ""
        self.base: int | None = None
        """The offset where the first file was begun; None once another file is read."""
        self.drained = False
        """Whether all that is there was read."""
        self._moved = elapsed  # when the log said something new
        self._touched = elapsed  # when it grew
        self._died = 0.0
        self._failed_at: float | None = None  # when the failure was seen that still stands

    def dump(self) -> dict[str, Any]:
        unread = len(self.scanner.rest)
        return {
            "at": self.elapsed,  # no two states are the same: Ansible would take the second for a secret that was passed in
            "bytes": self.bytes - unread,
            "appeared": self.appeared,
            "base": self.base,
            "failed_at": self._failed_at,
            "moved": self._moved,
            "judge": self.judge.dump(),
            "life": self.life.dump(),
            "mark": self.mark(),
            "notes": self.source.notes,
            "seen": self.scanner.seen,
            "tail": "" if unread else self.source.tail.hex(),
            "touched": self._touched,
        }

    def load(self, known: dict[str, Any]) -> None:
        self.bytes, self.appeared, self.base, self._moved = (
            known[name] for name in ("bytes", "appeared", "base", "moved")
        )
        self._failed_at, self._touched = known["failed_at"], known["touched"]
        self.scanner.seen = known["seen"]
        self.source.notes.extend(known["notes"])
        self.judge.load(known["judge"])
        self.life.load(known["life"])
        self._told = self.progress()["stage"]

    def notes(self) -> list[str]:
        """What should not have been so."""
        late = not self.drained and self.elapsed >= (self.limits.timeout or NOW)
        unread = ["Time was up before the log was read to its end."] if late else []
        return [*self.judge.notes, *self.source.notes, *self.life.notes(), *unread]

    def mark(self) -> dict[str, Any]:
        """Where the next wait would begin: at a line's start."""
        return self.source.mark(unread=len(self.scanner.rest))

    def progress(self) -> dict[str, Any]:
        """How far it has come, the unfinished line included: progress bars seldom finish one."""
        shown = (self.scanner.glance(self.elapsed) or self.judge).progress
        return {"stage": shown.stage, "percent": shown.percent}

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def run(self) -> str:
        """Wait; returns the verdict."""
        while True:
            if not self.dead and self.life.dead():  # before reading: what it wrote last is then read too
                self.source.settle()
                self.dead, self._died = True, self.elapsed
            self._read()
            verdict = self._verdict()
            if verdict:
                if self.dead:
                    self.exit = self.life.ended()
                return verdict
            self.waker.wait(self._patience(), 0 if self.dead else self.life.pid, self.source.stream)

    def _read(self) -> None:
        """Everything that is there, as far as time allows."""
        rest = len(self.scanner.rest)
        limit = self.limits.timeout or NOW
        if self.limits.slice is not None:
            limit = min(limit, self.limits.slice)
        self.drained = False
        while not self.drained:
            generation = self.source.generation
            data = self.source.read()
            if self.source.generation != generation:
                self.scanner.turn(self.elapsed)
                self.base = None
            elif not self.appeared and self.source.found:
                self.base = self.source.mark(unread=len(data)).get("offset")
            self.appeared = self.appeared or self.source.found
            if data:
                self._touched = self.elapsed
                self.bytes += len(data)
                self.scanner.feed(data, self._touched)
                if self._touched >= limit:
                    break
            self.drained = not data
        if self.judge.moved or len(self.scanner.rest) != rest:
            self._moved, self.judge.moved = self._touched, False

    def _verdict(self) -> str:
        """What is decided at this moment; nothing if the wait must go on."""
        now, judge = self.elapsed, self.judge
        late = now >= self.limits.timeout
        if not self.drained and now < (self.limits.timeout or NOW):
            return "pending"
        if judge.failed:
            self._failed_at = now if self._failed_at is None else self._failed_at
            settled = now - self._touched >= SETTLED or now - self._failed_at >= UNSETTLED
            return "failed" if self._silenced() or late or settled else ""
        self._failed_at = None
        if judge.stopping:
            return "stopped"
        if (self._silenced() or late or now - self._touched >= SETTLED) and self._finish_line():
            return self._verdict()
        if self.dead:
            return self._after_death() if self._silenced() or late else ""
        if judge.ready:
            return "ready"
        if self.probe and self.probe.due(now):
            answer = self.probe.witness(self.life.pid)
            if answer:
                judge.ready = Match(answer, 0, answer)
                judge.progress.enter("ready", now)
                return "ready"
        self.missing = self.life.missing(now)
        if self.missing:
            return "failed"
        if late:
            return ("timeout" if self.limits.timeout else "pending") if self.appeared else "missing"
        if self.limits.stall and now - self._moved >= self.limits.stall:
            return "stalled"
        if self.limits.slice is None:
            return ""
        return "pending" if now >= self.limits.slice or (self._has_news() and now >= self._news) else ""

    def _has_news(self) -> bool:
        """Whether the controller would show more than when this part of the wait began."""
        return bool(self.progress()["stage"] != self._told)

    def _silenced(self) -> bool:
        """Whether the process is gone and all that it wrote is there."""
        return self.dead and self.elapsed - max(self._touched, self._died) >= self.source.lag

    def _finish_line(self) -> bool:
        """Take the last line as it stands, if that decides something."""
        other = self.scanner.glance(self.elapsed)
        if not other or not other.decided or self.judge.decided:
            return False
        self.judge = self.scanner.judge = other
        return True

    def _after_death(self) -> str:
        end, ready = self.life.ended(), self.judge.ready
        if ready and not self.judge.profile.vllm and (end is None or end.code == 0):
            return "ready"  # a job, other than a server, may end when it is done
        if ready and self.life.stopped():
            return "stopped"
        self.judge.last_words()
        if ready or self.judge.failed or self.judge.cause():
            return "failed"
        return "stopped" if self.life.stopped() else "exited"

    def line_base(self) -> int:
        """How many lines of the file lie before the first that was read, for those who look it up by number."""
        return self.source.lines_before(self.base) if self.base else 0

    def _patience(self) -> float:
        """Seconds until something is due by the clock."""
        now = self.elapsed
        due = [self.limits.timeout]
        if self.dead:
            due.append(max(self._touched, self._died) + self.source.lag)
        if self.limits.slice is not None:
            due += [self.limits.slice, self._news] if self._has_news() else [self.limits.slice]
        if self.limits.stall:
            due.append(self._moved + self.limits.stall)
        if self.judge.failed or self.scanner.rest:
            due.append(self._touched + SETTLED if now - self._touched < SETTLED else now + SETTLED)
        return max(min(due) - now, 0.01)

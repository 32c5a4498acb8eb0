# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait itself: read, judge, look after the process, until something is decided."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Optional

from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Life
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import Scanner

SETTLED = 1.0
"""After a fatal line: so long without a new byte, and all that the processes had to say is said."""
UNSETTLED = 10.0
"""After a fatal line: so long at most, whatever they go on saying."""
POLL = 0.2


@dataclasses.dataclass(frozen=True)
class Limits:
    """In seconds since the wait began. slice: where this part of the wait ends; another one goes on from there."""

    timeout: float
    stall: float | None = None
    slice: float | None = None


class Wait:
    def __init__(
        self,
        follower: Follower,
        judge: Judge,
        life: Life,
        limits: Limits,
        elapsed: float = 0.0,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.follower, self.judge, self.life, self.limits = follower, judge, life, limits
        self.scanner = Scanner(judge)
        self.began = time.monotonic() - elapsed
        self.bytes = 0
        self.appeared = False
        self.moved = elapsed  # when the log said something new last
        self.exit = ""
        if state:
            self.bytes, self.appeared, self.moved = state["bytes"], state["appeared"], state["moved"]

    def state(self) -> dict[str, Any]:
        return {
            "bytes": self.bytes - len(self.scanner.rest),
            "appeared": self.appeared,
            "moved": self.moved,
            "judge": self.judge.dump(),
            "life": self.life.state(),
            "mark": self.mark(),
        }

    def mark(self) -> dict[str, Any]:
        return self.follower.mark(unread=len(self.scanner.rest))

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def run(self) -> str:
        """Wait; returns the verdict."""
        failed_at = None
        touched = self.elapsed
        while True:
            dead = self.life.dead()
            if self._read():
                touched = self.elapsed
            now = self.elapsed
            if self.judge.failed:
                failed_at = now if failed_at is None else failed_at
                if dead or not self.limits.timeout or now - touched >= SETTLED or now - failed_at >= UNSETTLED:
                    return self._end("failed", dead)
            elif self.judge.stopping:
                return self._end("stopped", dead)
            elif self.judge.ready and (not dead or self._done()):
                return "ready"
            elif dead:
                self.judge = self.scanner.glance(now) or self.judge
                if self.judge.ready or self.judge.failed or self.judge.cause():
                    return self._end("failed", dead)
                return self._end("stopped" if self.judge.stopping else "exited", dead)
            elif now >= self.limits.timeout or now - touched >= SETTLED:
                other = self.scanner.glance(now)
                if other and other.decided:
                    self.judge = other
                    self.scanner.judge = other
                    continue
                if now >= self.limits.timeout:
                    return self._late()
                if self.limits.stall is not None and now - self.moved >= self.limits.stall:
                    return "stalled"
            if self.limits.slice is not None and now >= self.limits.slice and not self.judge.failed:
                return "pending"
            time.sleep(POLL)

    def _read(self) -> bool:
        generation = self.follower.generation
        read = False
        data = self.follower.read()
        while data:
            read = self.appeared = True
            if self.follower.generation != generation:
                generation = self.follower.generation
                self.scanner.turn(self.elapsed)
            self.bytes += len(data)
            self.scanner.feed(data, self.elapsed)
            if self.limits.timeout and self.elapsed > self.limits.timeout:
                break
            data = self.follower.read()
        if self.judge.moved:
            self.moved, self.judge.moved = self.elapsed, False
        self.appeared = self.appeared or self.follower.found
        return read

    def _done(self) -> bool:
        """A job, other than a server, may end once it has said that it is ready."""
        return not self.judge.profile.vllm and self.life.how() in ("", "exit code 0")

    def _end(self, verdict: str, dead: bool) -> str:
        if dead:
            self.exit = self.life.how()
        return verdict

    def _late(self) -> str:
        if not self.appeared:
            return "missing"
        return "timeout" if self.limits.timeout else "pending"

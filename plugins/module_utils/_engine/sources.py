# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the engine tells what it counts: its /metrics, or else its log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from ansible_collections.llmops.vllm.plugins.module_utils._engine import metrics
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import (
    PATIENCE,
    Answer,
    NoAnswerError,
    Server,
)
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower, NotALogError

# The engine sends a token before it counts it, and logs its figures every ten seconds unless told otherwise.
SETTLE_METRICS = 5.0
SETTLE_LOG = 30.0


class Source(Protocol):
    words: str

    def mark(self) -> None:
        """Count from here on."""

    def since(self, answers: Sequence[Answer], deadline: float) -> metrics.Counters:
        """What was counted since the mark, once our own answers are in it or don't want to be."""


def find(server: Server, log: str | None, deadline: float) -> Source:
    """The best there is. NoAnswerError if the engine sleeps, for then it would count nothing."""
    try:
        status, text = server.metrics(deadline)
    except NoAnswerError as e:
        status, text = 0, e.evidence
    counters = metrics.read(text) if status == 200 else metrics.Counters()
    if counters.asleep or server.sleeping(deadline):
        raise NoAnswerError(
            "The engine sleeps",
            f"It says so itself, while {server.health()}",
            "Wake it (POST /wake_up) and probe again",
        )
    if counters.heard:
        return Metrics(server)
    if log:
        return Log(log)
    shown = "shows no counter of vLLM" if status == 200 else f"answered {status}" if status else f"gave nothing: {text}"
    return Nothing(f"/metrics (it {shown}; no log was named)")


class Nothing:
    def __init__(self, words: str) -> None:
        self.words = words

    def mark(self) -> None:
        pass

    def since(self, answers: Sequence[Answer], deadline: float) -> metrics.Counters:
        return metrics.Counters()


class Metrics:
    words = "/metrics"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = metrics.Counters()

    def mark(self) -> None:
        self._before = self._read()

    def since(self, answers: Sequence[Answer], deadline: float) -> metrics.Counters:
        until = min(deadline, time.monotonic() + SETTLE_METRICS)
        tokens = sum(a.tokens for a in answers)
        while True:
            try:
                counted = metrics.delta(self._before, self._read())
            except metrics.CountersResetError as e:
                raise NoAnswerError(
                    "The server was restarted during the probe",
                    str(e),
                    "Find out why (its log, its exit record), wait until it is ready, and probe again",
                ) from None
            if (counted.generated or 0) >= tokens or time.monotonic() > until:
                return counted
            time.sleep(0.05)

    def _read(self) -> metrics.Counters:
        status, text = self._server.metrics(time.monotonic() + PATIENCE)
        if status != 200:
            raise NoAnswerError(
                "The server stopped showing its counters during the probe",
                f"/metrics answered {status}; {self._server.health()}",
                "Read the server's log",
            )
        return metrics.read(text)


class Log:
    def __init__(self, path: str) -> None:
        self.words = f"the lines that {path} gained"
        self._follower = Follower(path, since="end")

    def mark(self) -> None:
        self._read()

    def since(self, answers: Sequence[Answer], deadline: float) -> metrics.Counters:
        until = min(deadline, time.monotonic() + SETTLE_LOG)
        tokens = sum(a.tokens for a in answers)
        text = ""
        while True:
            text += self._read()
            counted = metrics.read_log(text)
            # The first token of an answer needs no draft, and what the last draft proposes beyond the end is lost.
            if (counted.generated or 0) >= tokens - 2 * len(answers) or time.monotonic() > until:
                return counted
            time.sleep(0.25)

    def _read(self) -> str:
        try:
            return b"".join(iter(self._follower.read, b"")).decode(errors="replace")
        except NotALogError as e:
            raise NoAnswerError(
                "The log can't be read", str(e).rstrip("."), "Give the path of the server's log"
            ) from None

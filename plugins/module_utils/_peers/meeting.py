# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all ranks of a meeting have in common: who they are, how they try each other, and what they believe of what is said."""

from __future__ import annotations

import abc
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from ansible_collections.llmops.vllm.plugins.module_utils._peers.talking import SILENT, STRANGE, Talk, TalkError, call

MAGIC = "llmops.vllm.peers/1"
MOST = 256  # hosts
ANSWER = 256 << 10  # bytes of a line about all hosts, of one whose greeting was right
PADDING = "." * (16 << 10)  # more than a packet holds, since a wrong MTU lets small ones through
RESERVE = 8.0  # seconds that are kept for trying each other; a connection has 3/8 of them
DAY = 86400


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    address: str


@dataclasses.dataclass(frozen=True)
class Deployment:
    """As one of its hosts sees it. peers: by rank."""

    name: str
    rank: int
    peers: tuple[Peer, ...]
    port: int

    def named(self, rank: int) -> str:
        return self.peers[rank].name

    @property
    def me(self) -> str:
        return self.named(self.rank)


class Place(NamedTuple):
    """Where a rank listens."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Failure(NamedTuple):
    """That one rank did not reach another, and how, in a word of `talking`."""

    caller: int
    called: int
    how: str


@dataclasses.dataclass
class Outcome:
    """offset: seconds by which this clock is ahead of rank 0's, None if they did not meet. seconds: of a talk with each rank reached."""

    faults: list[str]
    offset: float | None = None
    seconds: dict[int, float] = dataclasses.field(default_factory=dict)


class Member(abc.ABC):
    """What a rank does, whichever it is. Within `timeout` seconds from now it has an outcome."""

    def __init__(
        self, deployment: Deployment, address: str, timeout: float, clock: Callable[[], float] = time.time
    ) -> None:
        self.deployment, self.address, self.clock = deployment, address, clock
        self.began = time.monotonic()
        self.end = self.began + timeout
        self.reserve = min(RESERVE, timeout / 2)
        self.patience = self.reserve * 3 / 8
        self.margin = self.reserve / 16  # for what is under way when it gets late
        self.places: list[Place | None] = []
        self.failures: list[Failure] = []
        self.seconds: dict[int, float] = {}

    @abc.abstractmethod
    def meet(self) -> Outcome:
        """Once."""

    def soon(self) -> float:
        return time.monotonic() + self.patience

    def who(self) -> dict[str, Any]:
        return {"magic": MAGIC, "deployment": self.deployment.name, "rank": self.deployment.rank}

    def recognise(self, said: Mapping[str, Any]) -> int:
        """The rank of one of ours."""
        if said.get("magic") != MAGIC or said.get("deployment") != self.deployment.name:
            raise TalkError(STRANGE)
        return int(number(said.get("rank"), 0, len(self.deployment.peers) - 1, whole=True))

    def answer(self, talk: Talk) -> None:
        """To one who tries whether this rank can be reached."""
        soon = self.soon()
        talk.say(soon, **self.who())
        self.recognise(talk.hear(soon))
        talk.say(soon, padding=PADDING)

    def try_all(self, until: float) -> None:
        threads = [
            threading.Thread(target=self._try, args=[rank, place, until], daemon=True)
            for rank, place in enumerate(self.places)
            if place and rank != self.deployment.rank
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _try(self, rank: int, place: Place, until: float) -> None:
        began = time.monotonic()
        try:
            with call(place.address, place.port, min(until, self.soon())) as talk:
                soon = min(until, self.soon())
                if self.recognise(talk.hear(soon)) != rank:
                    raise TalkError(STRANGE)
                self._exchange(talk, soon)
        except TalkError as e:
            self.failures.append(Failure(self.deployment.rank, rank, e.how))
        else:
            self.seconds[rank] = round(time.monotonic() - began, 4)

    def _exchange(self, talk: Talk, soon: float) -> None:
        try:
            talk.say(soon, **self.who(), padding=PADDING)
            talk.hear(soon)
        except TalkError:  # the other end may be the first to have waited long enough
            raise TalkError(SILENT) from None


def number(said: object, least: float, most: float, whole: bool = False) -> float:
    """What somebody said, if it is such a number."""
    if isinstance(said, bool) or not isinstance(said, int if whole else (int, float)) or not least <= said <= most:
        raise TalkError(STRANGE)
    return said


def listed(said: object) -> list[Any]:
    if not isinstance(said, list):
        raise TalkError(STRANGE)
    return said


def a_place(said: object) -> Place:
    parts = listed(said)
    if len(parts) != 2 or not isinstance(parts[0], str):
        raise TalkError(STRANGE)
    try:
        address = str(ip_address(parts[0]))
    except ValueError:
        raise TalkError(STRANGE) from None
    return Place(address, int(number(parts[1], 1, 65535, whole=True)))


def failures(said: list[Any], ranks: int) -> list[Failure]:
    found = []
    for each in said[: 2 * MOST]:
        parts = listed(each)
        if len(parts) != 3 or not isinstance(parts[2], str):
            raise TalkError(STRANGE)
        caller, called = (int(number(rank, 0, ranks - 1, whole=True)) for rank in parts[:2])
        # It will be read at a terminal, whoever said it.
        found.append(Failure(caller, called, "".join(filter(str.isprintable, parts[2]))[:100]))
    return found

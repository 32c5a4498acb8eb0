# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank 0 of a meeting of the hosts of a deployment: where the others come to, and which tells them of each other."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import threading
import time
from collections.abc import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._peers import problems
from ansible_collections.llmops.vllm.plugins.module_utils._peers.meeting import (
    ANSWER,
    DAY,
    Deployment,
    Failure,
    Member,
    Outcome,
    Place,
    a_place,
    failures,
    listed,
    number,
)
from ansible_collections.llmops.vllm.plugins.module_utils._peers.talking import STRANGE, Listener, Talk, TalkError


@dataclasses.dataclass
class Seat:
    """One who came. end: when its time is over. through: whether it has tried all, or is lost."""

    place: Place
    end: float
    through: bool = False
    lost: bool = False
    gone: bool = False


class Head(Member):
    """Rank 0. owner: who holds a port of this host in words, and nothing if that is the deployment's own server."""

    def __init__(
        self,
        deployment: Deployment,
        address: str,
        timeout: float,
        clock: Callable[[], float] = time.time,
        owner: Callable[[int], str] = lambda port: "somebody",
    ) -> None:
        super().__init__(deployment, address, timeout, clock)
        self.owner = owner
        self.seats: dict[int, Seat] = {}
        self.changed = threading.Condition()
        self.called, self.over = threading.Event(), threading.Event()
        self.last = self.end
        self.told: list[Failure] = []

    def meet(self) -> Outcome:
        with contextlib.ExitStack() as open_:
            try:
                mine = open_.enter_context(Listener(self.address, 0, self.answer))
            except OSError as e:
                return Outcome([problems.deaf(self.deployment, Place(self.address, 0), e)])
            ports, faults = self._listen(open_)
            if not ports:
                return Outcome(faults)
            self._gather(Place(self.address, mine.port))
            missing = [rank for rank, place in enumerate(self.places) if place is None]
            if missing and not faults:  # else that may be why
                where, waited = Place(self.address, ports[0]), time.monotonic() - self.began
                faults.append(problems.never_came(self.deployment, missing, where, waited))
            self.try_all(self.last - 2 * self.margin)
            self._await(lambda: all(seat.through for seat in self.seats.values()), self.last - self.margin)
            lost = [rank for rank, seat in sorted(self.seats.items()) if seat.lost or not seat.through]
            # What failed with one that is lost has no other cause.
            self.told = [each for each in self.failures if each.caller not in lost and each.called not in lost]
            self.over.set()
            self._await(lambda: all(seat.gone for seat in self.seats.values()), self.last)
        faults += problems.lost(self.deployment, lost)
        faults += problems.pairs(self.deployment, self.told, self.places)
        return Outcome(faults, 0.0, self.seconds)

    def _listen(self, open_: contextlib.ExitStack) -> tuple[list[int], list[str]]:
        """At the port of the deployment and at the next one, as a server of its own may hold the first."""
        ports, held = [], {}
        for port in (self.deployment.port, self.deployment.port + 1):
            try:
                open_.enter_context(Listener(self.address, port, self.receive))
                ports.append(port)
            except OSError as e:
                if e.errno != errno.EADDRINUSE and not ports:
                    return [], [problems.deaf(self.deployment, Place(self.address, port), e)]
                held[port] = self.owner(port) if e.errno == errno.EADDRINUSE else ""
        # The second port is nobody's but ours for a moment, so it is no fault that it is held where it isn't needed.
        wanted = [port for port in held if held[port] and (port == self.deployment.port or not ports)]
        faults = [problems.held(self.deployment, port, held[port]) for port in wanted]
        return ports, faults or ([] if ports else [problems.full(self.deployment)])

    def receive(self, talk: Talk) -> None:
        """One who comes, in a thread of its own from the greeting to the end."""
        soon = self.soon()
        talk.say(soon, **self.who())
        said = talk.hear(soon)
        received = self.clock()
        rank = self.recognise(said)
        if rank == 0:
            raise TalkError(STRANGE)
        seat = Seat(a_place(said.get("place")), time.monotonic() + number(said.get("left"), 0, DAY))
        with self.changed:
            late = self.called.is_set()
            if not late:
                self.seats[rank] = seat  # in place of one that came before and has lost its connection
                self.changed.notify_all()
        if late:
            talk.say(soon, late=True)
        else:
            self._accompany(talk, rank, seat, received)

    def _accompany(self, talk: Talk, rank: int, seat: Seat, received: float) -> None:
        try:
            talk.say(self.soon(), received=received, sent=self.clock())
            self.called.wait(max(0, self.end - time.monotonic()))
            if self.seats[rank] is not seat:
                return
            talk.say(self.last, places=self.places, left=max(0, self.last - time.monotonic()))
            told = talk.hear(self.last, ANSWER).get("failures")
            self.failures.extend(failures([[rank, *listed(each)] for each in listed(told)], len(self.places)))
        except TalkError:
            seat.lost = True
        with self.changed:
            seat.through = True
            self.changed.notify_all()
        try:
            self.over.wait(max(0, self.last - time.monotonic()))
            talk.say(self.last, failures=[each for each in self.told if rank in each[:2]])
        finally:
            with self.changed:
                seat.gone = True
                self.changed.notify_all()

    def _gather(self, mine: Place) -> None:
        """Until all have come, or somebody's time allows no more."""
        with self.changed:
            while len(self.seats) < len(self.deployment.peers) - 1:
                left = min([self.end, *(seat.end for seat in self.seats.values())]) - self.reserve - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
            self.last = min([self.end, *(seat.end for seat in self.seats.values())])
            seats = [self.seats.get(rank) for rank in range(1, len(self.deployment.peers))]
            self.places = [mine, *(seat.place if seat else None for seat in seats)]
            self.called.set()

    def _await(self, done: Callable[[], bool], until: float) -> None:
        with self.changed:
            self.changed.wait_for(done, max(0, until - time.monotonic()))

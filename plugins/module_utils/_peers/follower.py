# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a deployment meet: each learns whether it reaches the others, they reach it, and their clocks agree.

Rank 0 listens where torch.distributed will. The others come to it, tell where they listen themselves (at ports that the system chooses,
as those of Gloo and ZeroMQ), and are told where everybody else does once all have come, or the time for that is over. Then each tries
each, tells rank 0 what failed, and goes on listening until rank 0 says that all are through, with the failures that concern it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._peers import problems
from ansible_collections.llmops.vllm.plugins.module_utils._peers.meeting import (
    ANSWER,
    DAY,
    Deployment,
    Member,
    Outcome,
    Place,
    a_place,
    failures,
    listed,
    number,
)
from ansible_collections.llmops.vllm.plugins.module_utils._peers.problems import LATE
from ansible_collections.llmops.vllm.plugins.module_utils._peers.talking import STRANGE, Listener, Talk, TalkError, call

PAUSE = 0.2  # seconds before the head is tried again
APART = 5.0  # seconds between two clocks that are too many


class Follower(Member):
    """Any other rank. heads: the addresses that the head may have."""

    def __init__(
        self,
        deployment: Deployment,
        address: str,
        timeout: float,
        clock: Callable[[], float] = time.time,
        heads: Sequence[str] = (),
    ) -> None:
        super().__init__(deployment, address, timeout, clock)
        self.candidates = [
            Place(head, port)
            for head in heads or (deployment.peers[0].address,)
            for port in (deployment.port, deployment.port + 1)
        ]
        self.offset: float | None = None

    def meet(self) -> Outcome:
        try:
            listener = Listener(self.address, 0, self.answer)
        except OSError as e:
            return Outcome([problems.deaf(self.deployment, Place(self.address, 0), e)])
        with listener:
            talk, hows = self._come(listener.port)
            if talk is None:
                waited = time.monotonic() - self.began
                return Outcome([problems.unreachable(self.deployment, hows, waited)])
            with talk:
                faults = self._take_part(talk)
        if self.offset is not None and abs(self.offset) > APART:
            faults.append(problems.apart(self.deployment, self.offset))
        return Outcome(faults, self.offset, self.seconds)

    def _come(self, port: int) -> tuple[Talk | None, dict[Place, str]]:
        """The connection with the head, or how each place of it failed the last time."""
        until = self.end - self.reserve
        hows: dict[Place, str] = {}
        while time.monotonic() < until:
            for place in self.candidates:
                how = hows.get(place)
                if how and time.monotonic() > until:
                    break
                try:
                    talk = call(place.address, place.port, self.soon())
                except TalkError as e:
                    # Whoever waited for nobody more is soon gone; another meeting may begin there.
                    hows[place] = how if how == LATE else e.how
                    continue
                try:
                    self._introduce(talk, port)
                    return talk, {}
                except TalkError as e:
                    hows[place] = e.how
                    talk.close()
            time.sleep(PAUSE)
        return None, hows

    def _introduce(self, talk: Talk, port: int) -> None:
        soon = self.soon()
        if self.recognise(talk.hear(soon)) != 0:
            raise TalkError(STRANGE)
        left = self.end - time.monotonic()
        asked = self.clock()
        talk.say(soon, **self.who(), place=Place(self.address, port), left=left)
        said = talk.hear(soon)
        heard = self.clock()
        if said.get("late"):
            raise TalkError(LATE)
        received, sent = (number(said.get(word), -1e12, 1e12) for word in ("received", "sent"))
        # As in NTP: what the way takes in both directions is no difference of the clocks.
        self.offset = round(((asked - received) + (heard - sent)) / 2, 3) + 0.0  # and no -0.0

    def _take_part(self, talk: Talk) -> list[str]:
        try:
            said = talk.hear(self.end, ANSWER)
            places = listed(said.get("places"))
            if len(places) != len(self.deployment.peers):
                raise TalkError(STRANGE)
            self.places = [None if each is None else a_place(each) for each in places]
            self.try_all(time.monotonic() + number(said.get("left"), 0, DAY) - 2 * self.margin)
            talk.say(self.end, failures=[each[1:] for each in self.failures])
            self.failures = failures(listed(talk.hear(self.end, ANSWER).get("failures")), len(places))
        except TalkError:
            found = problems.pairs(self.deployment, self.failures, self.places)
            return found or [problems.left_alone(self.deployment)]
        return problems.pairs(self.deployment, self.failures, self.places)

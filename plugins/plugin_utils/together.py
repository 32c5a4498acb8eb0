# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts whose waits are one. Each is waited for by a fork of Ansible, and the forks tell each other in files of this run.

Every host has one file. Only its own fork writes it, whole or not at all, so nothing has to be locked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ansible import constants as C  # noqa: N812
from ansible import context

FIRST, NEXT, LAST = 0.5, 3.0, 2.0
"""Seconds of a slice: the first one, those that follow, and the one that is left once another host has failed."""
LOST = 60
"""A host that was not reached for so many seconds counts as failed."""
WATCHED = 10
"""But it has to be watched for so many of them: a controller that slept has heard of nobody for long."""


class TogetherError(Exception):
    """The waits can't be one, with what to do about it."""


@dataclasses.dataclass(frozen=True)
class Told:
    """What a host's fork says of it. state: waiting, ready, failed, or ended as another one failed.

    reached: when the host last answered; at: when this was said. Both by the clock that all processes of a machine share.
    """

    state: str
    message: str
    reached: float
    at: float


class Alone:
    """A wait that nobody else has to do with."""

    def failure(self) -> str:
        """Which other host failed, as a sentence. Nothing if none did."""
        return ""

    def seconds(self, usual: float, failure: str) -> float:
        return usual

    def patience(self, usual: float) -> float:
        """How long a slice may take, in seconds."""
        return usual

    def lost(self) -> bool:
        """Whether the host was not reached for so long that it counts as failed."""
        return False

    def answered(self) -> None:
        """The host was reached."""

    def led(self, got: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a host that nothing is decided of, if another one decides."""
        return None

    def decided(self, got: dict[str, Any], late: bool) -> dict[str, Any] | None:
        """The result of a host that says something of itself; None if it has to wait for another one all the same."""
        return got

    def elsewhere(self, got: Mapping[str, Any], failure: str) -> dict[str, Any]:
        """The result of a host that did no wrong. got: what is known of it."""
        return dict(got)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Whatever ends the wait, the others hear of it."""
        yield


class Together(Alone):
    def __init__(self, directory: str, host: str, leader: str, hosts: list[str]) -> None:
        self.directory, self.host, self.leader, self.hosts = directory, host, leader, hosts
        self.reached = time.monotonic()
        self._slices = 0
        self._final = False
        self._watched: dict[tuple[str, float], float] = {}

    def seconds(self, usual: float, failure: str) -> float:
        self._slices += 1
        return LAST if failure else FIRST if self._slices == 1 else NEXT

    def failure(self) -> str:
        found = []
        for host, told in self._others():
            if told.state == "failed":
                found.append((told.at, f"{host} failed: {told.message}"))
            elif self._lost(host, told):
                found.append((told.reached + LOST, f"{host} has not been reached for {LOST} s."))
        return f"The wait ended, as {min(found)[1]}" if found else ""

    def patience(self, usual: float) -> float:
        return min(usual, max(self._left(), 1.0))

    def lost(self) -> bool:
        return self._left() <= 0

    def answered(self) -> None:
        self.reached = time.monotonic()
        self._tell("waiting")

    def led(self, got: dict[str, Any]) -> dict[str, Any] | None:
        if self.host == self.leader or not self._leader_is_ready():
            return None
        self._tell("ready")
        return {**got, "verdict": "ready", "was_ready": True, "msg": f"The server is ready, as {self.leader} is."}

    def decided(self, got: dict[str, Any], late: bool) -> dict[str, Any] | None:
        if got.get("failed") or got.get("verdict") != "ready":
            return self._failed(got)
        self.reached = time.monotonic()
        try:
            failure = self.failure()
            if failure:
                return self.elsewhere(got, failure)
            if self.host == self.leader or self._leader_is_ready():
                self._tell("ready")
                return got
            if late:
                msg = f"{self.host} is ready, and its leader {self.leader} is not, though time is up."
                return self._failed({**got, "failed": True, "verdict": "timeout", "msg": msg})
            self._tell("waiting")
            return None
        except TogetherError as e:
            return {**got, "failed": True, "verdict": "failed", "msg": f"{e}\n{got.get('msg', '')}".rstrip()}

    def elsewhere(self, got: Mapping[str, Any], failure: str) -> dict[str, Any]:
        with contextlib.suppress(TogetherError):  # what it has to say is known to the others
            self._tell("ended")
        return {**got, "changed": False, "failed": True, "verdict": "elsewhere", "msg": failure}

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        self._tell("waiting")
        try:
            yield
        except BaseException as e:
            # Of a host that is lost the others know by themselves; and what can't be written must not hide what is raised here.
            if not self._final and not self.lost():
                with contextlib.suppress(TogetherError):
                    self._tell("failed", _first_line(str(e)) or f"its wait was ended by {type(e).__name__}.")
            raise

    def _failed(self, got: dict[str, Any]) -> dict[str, Any]:
        try:
            self._tell("failed", _first_line(str(got.get("msg", ""))))
            absent = [host for host in self.hosts if host != self.host and self._told(host) is None]
        except TogetherError as e:
            return {**got, "warnings": [*got.get("warnings", []), str(e)]}
        if got.get("verdict") != "timeout" or not absent:
            return got
        never = "never began to wait: out of the play already, or Ansible's forks did not suffice."
        return {**got, "msg": f"{got.get('msg', '')}\n{', '.join(absent)} {never}"}

    def _leader_is_ready(self) -> bool:
        told = self._told(self.leader)
        return told is not None and told.state == "ready"

    def _others(self) -> Iterator[tuple[str, Told]]:
        for host in self.hosts:
            told = self._told(host) if host != self.host else None
            if told:
                yield host, told

    def _left(self) -> float:
        return self.reached + LOST - time.monotonic()

    def _lost(self, host: str, told: Told) -> bool:
        now = time.monotonic()
        if told.state != "waiting" or now - told.reached <= LOST - WATCHED:
            return False
        since = self._watched.setdefault((host, told.reached), now)
        return now - told.reached > LOST and now - since >= WATCHED

    # --- files ---------------------------------------------------------------------------------------------------

    def _tell(self, state: str, message: str = "") -> None:
        self._final = state != "waiting"
        path = self._path(self.host)
        aside = f"{path}.{os.getpid()}"
        try:
            os.makedirs(self.directory, 0o700, exist_ok=True)
            with open(aside, "w", encoding="utf-8") as f:
                json.dump(dataclasses.asdict(Told(state, message, self.reached, time.monotonic())), f)
            os.replace(aside, path)
        except OSError as e:
            raise TogetherError(
                f"The hosts {', '.join(self.hosts)} are waited for together, and what is known of {self.host} can't be written for the "
                f"others: {e}. Make room on this controller, or have it keep its temporary files elsewhere (ANSIBLE_LOCAL_TEMP)."
            ) from e

    def _told(self, host: str) -> Told | None:
        """None if its wait has not begun."""
        try:
            with open(self._path(host), encoding="utf-8") as f:
                return Told(**json.load(f))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as e:
            raise TogetherError(
                f"The hosts {', '.join(self.hosts)} are waited for together, and what is known of {host} can't be read on this "
                f"controller: {e}."
            ) from e

    def _path(self, host: str) -> str:
        return os.path.join(self.directory, f"{_digest(host)}.json")


def company(given: Any, host: str) -> Alone:
    """Whom a host is waited for with, as the option says. Raises TogetherError."""
    if not given:
        return Alone()
    told: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    key, leader, hosts = str(told.get("key") or ""), told.get("leader"), told.get("hosts")
    if not (key and isinstance(hosts, list) and all(isinstance(h, str) for h in hosts)):
        raise TogetherError("together: it has to be a dictionary with a key, the leader and the list of all hosts.")
    for name in (leader, host):
        if name not in hosts:
            raise TogetherError(f"together: {name} is none of the hosts, which are {', '.join(hosts)}.")
    forks = context.CLIARGS.get("forks") or len(hosts)
    if forks < len(hosts):
        raise TogetherError(
            f"The hosts {', '.join(hosts)} have to be waited for at once, and Ansible runs {forks} at a time. Set forks in ansible.cfg, "
            f"or add --forks {len(hosts)}."
        )
    # Made once for a run, by the process that all forks come from. Nobody else can read it, and it goes with the run.
    return Together(os.path.join(C.DEFAULT_LOCAL_TMP, f"together-{_digest(key)}"), host, str(leader), list(hosts))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]

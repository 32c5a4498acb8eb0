# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short talks between the hosts of a deployment: JSON objects, a line each, with an end in time and in size.

Who listens speaks first, and who calls says nothing before it is the right one that listens. So nothing is ever sent to a server that
happens to hold the port, as the head's own may, and what a stranger sends is read as far as one line and dropped.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

LINE = 32 << 10  # bytes of a line from whoever comes
MOST = 300  # connections that are answered at a time: more than a deployment has hosts, fewer than a process has descriptors

TIMED_OUT, REFUSED, NO_ROUTE, SILENT, STRANGE = "timed out", "refused", "no route", "silent", "strange"
"""How a talk fails. Anything else is the system's own word for it."""
HOW = {
    errno.ETIMEDOUT: TIMED_OUT,
    errno.ECONNREFUSED: REFUSED,
    errno.EHOSTUNREACH: NO_ROUTE,
    errno.ENETUNREACH: NO_ROUTE,
}


class TalkError(Exception):
    """how: one of the words above, or the system's."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Talk:
    """A connection on which both ends say JSON objects. deadline: by time.monotonic()."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def say(self, deadline: float, **what: Any) -> None:
        try:
            self._connection.settimeout(_left(deadline))
            self._connection.sendall(json.dumps(what).encode() + b"\n")
        except OSError as e:
            raise TalkError(_how(e, SILENT)) from None

    def hear(self, deadline: float, most: int = LINE) -> dict[str, Any]:
        while b"\n" not in self._rest:
            if len(self._rest) > most:
                raise TalkError(STRANGE)
            try:
                self._connection.settimeout(_left(deadline))
                more = self._connection.recv(1 << 16)
            except OSError as e:
                raise TalkError(_how(e, SILENT)) from None
            if not more:
                raise TalkError(STRANGE)
            self._rest += more
        line, _end, self._rest = self._rest.partition(b"\n")
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            raise TalkError(STRANGE) from None
        if not isinstance(said, dict):
            raise TalkError(STRANGE)
        return said


def call(address: str, port: int, deadline: float) -> Talk:
    try:
        return Talk(socket.create_connection((address, port), _left(deadline)))
    except OSError as e:
        raise TalkError(_how(e, TIMED_OUT)) from None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout
    return left


def _how(error: OSError, late: str) -> str:
    if isinstance(error, (socket.timeout, TimeoutError)) and error.errno is None:
        return late
    return HOW.get(error.errno or 0) or error.strerror or str(error)


class Listener:
    """Has a thread for each who comes, in which `answer` talks to them. Raises OSError where it can't listen."""

    def __init__(self, address: str, port: int, answer: Callable[[Talk], None]) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
            self._socket.listen(MOST)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._answer = answer
        self._places = threading.BoundedSemaphore(MOST)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_error: object) -> None:
        """Who is talked to already is left to it."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _address = self._socket.accept()
            except OSError:
                self._closed.wait(0.1)  # no descriptor is free, or who called is gone already
                continue
            talk = Talk(connection)
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._talk, args=[talk], daemon=True).start()
            else:
                talk.close()

    def _talk(self, talk: Talk) -> None:
        try:
            # TalkError: a stranger, or one of ours who is gone.
            with contextlib.suppress(TalkError), talk:
                self._answer(talk)
        finally:
            self._places.release()

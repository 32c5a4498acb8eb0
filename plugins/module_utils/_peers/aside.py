# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may take as long as a name server or a disk likes, when nobody may wait that long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """Work that goes on in a thread from now on."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done: list[T] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._done.append(self._work())
        except Exception as e:  # for whoever asks for the result
            self._error = e

    def result(self, seconds: float) -> T:
        """What came of it. Raises what it raised, and TimeoutError if it isn't through in so many seconds; it goes on then."""
        self._thread.join(max(0, seconds))
        if self._error:
            raise self._error
        if not self._done:
            raise TimeoutError(f"no answer within {seconds:.0f} s")
        return self._done[0]

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a server running: the same questions and orders, whoever it is."""

from __future__ import annotations

import abc
from typing import Any


class SupervisorError(Exception):
    """An order was not carried out; says why, and what to do."""


class Supervisor(abc.ABC):
    """One server under its supervisor.

    wanted: the words that tell one thing that can run from another.
    actions: what was done so far, in words.
    """

    wanted: list[str]
    actions: list[str]

    @abc.abstractmethod
    def running(self) -> list[str]:
        """What runs now, in the words of wanted; empty if nothing does."""

    @abc.abstractmethod
    def active(self) -> bool:
        """Whether the supervisor runs something, or is about to."""

    @abc.abstractmethod
    def going(self) -> bool:
        """The same, asked anew."""

    def differing(self) -> tuple[str, str] | None:
        """The supervisor's own file, as it is and as it has to be, if that is not the same."""
        return None

    @abc.abstractmethod
    def settled(self) -> bool:
        """Whether the supervisor itself needs no change while the server goes on."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Bring the supervisor up to date without touching the server."""

    @abc.abstractmethod
    def hindrance(self) -> str:
        """What speaks against a start; empty if nothing does."""

    @abc.abstractmethod
    def members(self) -> list[int]:
        """Living processes of the server, those that a dead one left behind included."""

    @abc.abstractmethod
    def ask_to_stop(self, pids: list[int]) -> str:
        """The first, polite request to all of these, as far as they need one; gives back what was done."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start what is wanted, where nothing runs."""

    @abc.abstractmethod
    def result(self) -> dict[str, Any]:
        """What a module returns of it."""

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From bytes as they come to lines as they are judged."""

from __future__ import annotations

import copy
from typing import Optional

from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import LONGEST, parse


class Scanner:
    """Cuts bytes into lines for a judge; the result does not depend on how the bytes were cut before."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.rest = b""

    def feed(self, data: bytes, now: float) -> None:
        data = self.rest + data
        pieces = data.split(b"\n")
        self.rest = pieces.pop()
        for piece in pieces:
            self._line(piece, now)
        while len(self.rest) > LONGEST:
            self._line(self.rest[:LONGEST], now, ended=False)
            self.rest = self.rest[LONGEST:]

    def _line(self, raw: bytes, now: float, ended: bool = True) -> None:
        number = self.judge.lines + 1
        for at in range(0, len(raw) or 1, LONGEST):
            for part in raw[at : at + LONGEST].split(b"\r"):
                if part or b"\r" not in raw:
                    self.judge.see(parse(number, part), now)
        self.judge.lines = number if ended else number - 1

    def turn(self, now: float) -> None:
        """The bytes that follow are those of another file."""
        if self.rest:
            self._line(self.rest, now)
        self.rest = b""
        self.judge.lines = 0

    def glance(self, now: float) -> Optional[Judge]:
        """What the judge would say if the last line were finished as it stands."""
        if not self.rest:
            return None
        other = copy.deepcopy(self.judge)
        Scanner(other)._line(self.rest, now)
        return other

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of a server's log: who wrote it, at which level, and what it says, in all the ways it can be dressed."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Optional

LONGEST = 64 * 1024
"""A longer line is judged in pieces of this size."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_FORWARDER = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,:+-]*Z?) "
    r"(?:\S+ [\w.@/\\-]+(?:\[\d+\])?: |std(?:out|err) [FP] )?"
)
_PROCESS = re.compile(r"\(([A-Za-z][^()\n]{0,60}?pid=\d+)\) ?|\[(rank\d+)\]: ?")
_LEVEL = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r"(?::\s+|\s+(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\s+\[[^\]\s]+:\d+\] ?)"
)
_NEW_YEAR = datetime.datetime(2000, 1, 1)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line without its dress.

    process: "Worker_TP0 pid=114", or "" where nobody signed.
    head: everything before the text; lines with the same head belong to the same record.
    stamp: month, day and time of day, by the line's own clock.
    """

    number: int
    process: str
    level: str
    head: str
    text: str
    stamp: str = ""


def parse(number: int, raw: bytes) -> Line:
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    at = 0
    match = _FORWARDER.match(text)
    if match:
        at = match.end()
    process = ""
    match = _PROCESS.match(text, at)
    while match:
        process = match[1] or match[2]
        at = match.end()
        match = _PROCESS.match(text, at)
    match = _LEVEL.match(text, at)
    if match:
        return Line(number, process, match[1], text[: match.end()], text[match.end() :], match["stamp"] or "")
    return Line(number, process, "", text[:at], text[at:])


def seconds(stamp: str) -> Optional[float]:
    """Seconds since the year began. vLLM names no year; any leap year serves."""
    try:
        month, day, hour, minute, second = map(int, re.split("[- :]", stamp))
        return (datetime.datetime(2000, month, day, hour, minute, second) - _NEW_YEAR).total_seconds()
    except ValueError:
        return None

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of a log: who wrote it, at which level, and what it says, in all the ways it can be dressed."""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

LONGEST = 64 * 1024
"""A longer line is judged in pieces of so many bytes."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What passes a line on puts its own time before it: journald and syslog with host and program, containers with a stream.
_FORWARDER = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,:+-]*Z?) "
    r"(?:[\w.:-]+ (?P<program>[\w.@/\\-]+(?:\[\d+\])?): |std(?:out|err) [FP] )?"
)
# Ray says of a worker on another host where it is.
_PROCESS = re.compile(r"\(([A-Za-z][^()\n]{0,60}?pid=\d+(?:, ip=[0-9A-Fa-f.:]+)?)\) ?|\[(rank\d+)\]: ?")
_LEVEL = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r"(?::\s+|\s+(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\s+\[[^\]\s]+:\d+\] ?)"
)
_NEW_YEAR = datetime.datetime(2000, 1, 1)


class Line(NamedTuple):
    """process: "Worker_TP0 pid=114", or "" where nobody signed.

    head: process, level, time and place; lines with the same head belong to one record.
    stamp: month, day and time of day by the line's own clock, or "".
    """

    number: int
    raw: str
    process: str
    level: str
    head: str
    text: str
    stamp: str


def plain(data: bytes) -> str:
    """A line as people read it: without colours."""
    raw = data.decode("utf-8", "replace")
    return _ANSI.sub("", raw) if "\x1b" in raw else raw


def parse(number: int, data: bytes) -> Line:
    raw = plain(data)
    match = _FORWARDER.match(raw)
    begin = at = match.end() if match else 0
    process = level = stamp = ""
    if match and (match["program"] or "").startswith("systemd["):
        process = "systemd"
    match = _PROCESS.match(raw, at)
    while match:
        process, at = match[1] or match[2], match.end()
        match = _PROCESS.match(raw, at)
    match = _LEVEL.match(raw, at)
    if match:
        level, stamp, at = match[1], match["stamp"] or "", match.end()
    return Line(number, raw, process, level, raw[begin:at].rstrip(), raw[at:], stamp)


def seconds(stamp: str) -> float | None:
    """Seconds since the year began; vLLM names no year, and any leap year serves. None if it is no time."""
    try:
        month, day, hour, minute, second = map(int, re.split("[- :]", stamp))
        return (datetime.datetime(2000, month, day, hour, minute, second) - _NEW_YEAR).total_seconds()
    except ValueError:
        return None

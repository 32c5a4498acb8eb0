# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemd unit's journal as a log: what it wrote since it was started, entry by entry."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from typing import IO, Any, cast

from ansible_collections.llmops.vllm.plugins.module_utils._host import programs
from ansible_collections.llmops.vllm.plugins.module_utils._logs.units import NothingToWatchError, started

CHUNK = 256 * 1024
FIELDS = "MESSAGE,UNIT,_PID"


class Journal:
    """Gives the messages of a unit's journal as lines, from a cursor on or since it was started.

    What is there already is read to its end first; then journalctl goes on as long as we do.
    """

    tail = b""
    lag = 1.0
    """What a process wrote last may come so long after its end."""

    def __init__(self, unit: str, mark: dict[str, Any] | None = None, since: str = "start") -> None:
        self.unit = unit
        self.cursor = str((mark or {}).get("cursor") or "")
        self.generation = 0
        self.notes: list[str] = []
        self._end = since == "end"
        self._process: subprocess.Popen[bytes] | None = None
        self._following = False
        self._rest = b""

    def __str__(self) -> str:
        return f"the journal of {self.unit}"

    def mark(self, unread: int = 0) -> dict[str, Any]:
        """An entry is one line or more, so nothing is ever given out in part."""
        return {"unit": self.unit, "cursor": self.cursor}

    @property
    def found(self) -> bool:
        return self._process is not None

    @property
    def stream(self) -> int:
        return self._process.stdout.fileno() if self._process and self._process.stdout else -1

    def read(self) -> bytes:
        process = self._process or self._start(follow=self._end and not self.cursor)
        stdout = cast(IO[bytes], process.stdout)
        while True:
            try:
                data = os.read(stdout.fileno(), CHUNK)
            except BlockingIOError:
                return b""
            if not data:
                if self._following:
                    raise NothingToWatchError(f"journalctl ended while it followed {self.unit}.")
                self._ended(process)
                self._start(follow=True)
                return b""
            lines = self._lines(data)
            if lines:
                return lines

    def lines_before(self, offset: int) -> int:
        return 0

    def settle(self) -> None:
        """Have everything written that was said before now. Asking needs rights that not everybody has."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            programs.run(["journalctl", "--sync"], timeout=10)

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            if self._process.stdout:
                self._process.stdout.close()
            if self._process.stderr:
                self._process.stderr.close()
            self._process = None

    def _start(self, follow: bool) -> subprocess.Popen[bytes]:
        self.close()
        command = ["journalctl", "--quiet", "--no-pager", "--output=json", f"--output-fields={FIELDS}"]
        if follow:
            command += ["--follow", "--no-tail" if self.cursor or not self._end else "--lines=0"]
        if self.cursor:
            command.append(f"--after-cursor={self.cursor}")
        elif not self._end:
            # By time, since journald does not know the invocation of a process that has ended before it looks.
            command.append(f"--since=@{started(self.unit):.6f}")
        command += [
            f"_SYSTEMD_UNIT={self.unit}",
            "+",
            f"UNIT={self.unit}",
        ]  # what it wrote, and what systemd wrote about it
        try:
            self._process = programs.Program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as e:
            raise NothingToWatchError(f"Can't read the journal: {e}.") from e
        self._following = follow
        if follow and self._process.stdout:
            os.set_blocking(self._process.stdout.fileno(), False)
        return self._process

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        said = cast(IO[bytes], process.stderr).read().decode("utf-8", "replace").strip()
        if process.wait():
            raise NothingToWatchError(f"journalctl can't read the journal of {self.unit}: {said}")

    def _lines(self, data: bytes) -> bytes:
        entries = (self._rest + data).split(b"\n")
        self._rest = entries.pop()
        given = b""
        for entry in entries:
            try:
                told = json.loads(entry)
                cursor, said = told["__CURSOR"], signature(told) + message(told)
            except (ValueError, KeyError, TypeError):
                continue  # not an entry
            self.cursor = cursor
            given += said + b"\n"
        return given


def signature(entry: dict[str, Any]) -> bytes:
    """Who wrote the entry, where it was systemd: its words about the unit may come between the unit's own."""
    return f"(systemd pid={entry.get('_PID')}) ".encode() if entry.get("UNIT") else b""


def message(entry: dict[str, Any]) -> bytes:
    """The message of an entry; journalctl writes one that is not UTF-8 as a list of bytes, and an overlong one as null."""
    said = entry.get("MESSAGE")
    if isinstance(said, list):
        return bytes(said) if all(isinstance(b, int) for b in said) else b""
    return said.encode("utf-8", "replace") if isinstance(said, str) else b""

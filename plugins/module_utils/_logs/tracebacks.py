# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tracebacks as the processes of a server write them: between each other's lines, chained, and passed on by wrappers."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import Line

BEGIN = "Traceback (most recent call last):"
CHAINS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
FRAME = b" \t|+"
"""So the lines between begin, of a group of exceptions, too."""
FORGOTTEN = 200
"""A process that wrote nothing for so many lines will not go on with its traceback."""
FINISHED = 20
"""Nor with the message that ends it, after so many."""

_MODULE = re.compile(r'\s+File "[^<"][^"]*", line \d+, in <module>')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: |:?$)")
# What other programs write to the same stderr right after an exception.
_FOREIGN = re.compile(
    r"/\S+:\d+: |sys:\d+: |nanobind: |\s*- (?:leaked|\.\.\. skipped) |\[[A-Z]\d+ |Process \S+:$|Exception ignored |WARNING: "
    r"|\w[\w ]*:\s+\d+%|terminate called"
)
_NOTHING = " ^~|"
_LONGEST_CONTEXT = 400
_LONGEST_MESSAGE = 12
_LONGEST_LINE = 2000


@dataclasses.dataclass
class Block:
    """What a process has written of a traceback.

    text: the exception's message, line by line, once it has come; at: the number of its first line.
    earlier: the exceptions of the chain before it, as (text, number).
    announced: the record says itself that this is fatal; main: the exception leaves the main module, so its process ends.
    ignored: the record is one that means nothing.
    """

    start: int
    process: str
    head: str
    level: str
    announced: bool
    ignored: bool
    last: int
    main: bool = False
    first: bool = True
    text: list[str] = dataclasses.field(default_factory=list)
    at: int = 0
    earlier: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    chain: bool = False
    blank: bool = False
    lines: list[str] = dataclasses.field(default_factory=list)

    @property
    def uncaught(self) -> bool:
        return bool(self.text) and not self.level and not self.ignored and (self.main or self.announced)


class Tracebacks:
    """The open tracebacks of all processes. Those that are finished wait in `done` to be fetched."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.open: dict[str, Block] = {}
        self.done: list[Block] = []

    def begin(self, line: Line, *, signature: str = "", announced: bool = False, ignored: bool = False) -> None:
        self._close(line.process)
        self.open[line.process] = Block(
            line.number, line.process or signature, line.head, line.level, announced, ignored, line.number
        )

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the traceback that its process is writing; if so it is kept."""
        if not self.open:
            return False
        for process, block in list(self.open.items()):
            if line.number - block.last > (FINISHED if block.text else FORGOTTEN):
                self._close(process)
        if line.process not in self.open:
            return False
        block = self.open[line.process]
        if line.head != block.head:
            if block.level:
                self._close(line.process)
            return False  # without signature others may write between the lines
        if not (self._message(block, line) if block.text else self._frame(block, line)):
            self._close(line.process)
            return False
        block.last = line.number
        return True

    def head(self, number: int) -> str | None:
        """What stands before each frame of the only open traceback, if the line with this number is one of its frames."""
        if len(self.open) != 1:
            return None
        process, block = next(iter(self.open.items()))
        if block.last != number or block.first or block.text:
            return None
        if not block.head:
            return "" if not process else None
        return f"{block.head} " if block.head[-1] in "])" else None

    def take_frames(self, texts: list[str], number: int) -> None:
        """More frames of the only open traceback, of which the last has this number."""
        block = next(iter(self.open.values()))
        kept: list[str] = []
        for text in reversed(texts):
            if len(kept) >= self.context:
                break
            if text.strip(_NOTHING):
                kept.append(text[:_LONGEST_CONTEXT])
        block.lines = [*block.lines, *reversed(kept)][-self.context or len(block.lines) :]
        block.last = number

    def exceptions(self) -> list[Block]:
        """Those that may still grow."""
        return [b for b in self.open.values() if b.text]

    def clear(self) -> None:
        self.open, self.done = {}, []

    def _frame(self, block: Block, line: Line) -> bool:
        text = line.text
        if not text or text[0] in " \t|+":
            if block.first:
                block.main, block.first = bool(_MODULE.match(text)), False
        elif block.level or _EXCEPTION.match(text):
            block.text, block.at = [text[:_LONGEST_LINE]], line.number
        else:
            return True  # noise between the frames
        self._keep(block, text)
        return True

    def _message(self, block: Block, line: Line) -> bool:
        text = line.text
        if not text:
            block.blank = True
        elif text in CHAINS:
            block.chain = True
        elif block.chain and text.startswith(BEGIN):
            block.earlier.append(("\n".join(block.text), block.at))
            block.text, block.first, block.main, block.chain, block.blank = [], True, False, False, False
        elif (
            (block.blank and not block.level)
            or text.startswith(BEGIN)
            or len(block.text) >= _LONGEST_MESSAGE
            or (not block.level and _FOREIGN.match(text))
        ):
            return False
        else:
            block.text.append(text[:_LONGEST_LINE])
            self._keep(block, text)
        return True

    def _keep(self, block: Block, text: str) -> None:
        if text.strip(_NOTHING):
            block.lines.append(text[:_LONGEST_CONTEXT])
            del block.lines[: -self.context or None]

    def _close(self, process: str) -> None:
        block = self.open.pop(process, None)
        if block and block.text:
            self.done.append(block)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a log line by line and knows at every moment what it says: ready, failed and why, stopped, or nothing yet.

What a judge has seen is plain data, so that a wait can be interrupted anywhere and go on in another process.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Optional

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import Line, seconds
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import mask
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import FACTS, PERCENT, STAGES, Fact, Stage

CALM = ("INFO", "WARNING", "DEBUG")
TRACEBACK = "Traceback (most recent call last):"
CHAINS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_PROCESS = re.compile(r"^Process (\S+):$")
_MODULE = re.compile(r'^\s+File "[^<"][^"]*", line \d+, in <module>')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |:?$)")
_FOREIGN = re.compile(r"^(?:/\S+:\d+: |nanobind: |\s*- leaked |resource_tracker|\[rank\d+\]|\[W\d+ )")

MOST = 40
"""So many troubles are kept; who fails more often than that has failed."""


@dataclasses.dataclass
class Profile:
    """What counts as what. Users add to it, or take its place."""

    ready: Sequence[Pattern] = ()
    failed: Sequence[Pattern] = ()
    ignore: Sequence[Pattern] = ()
    stages: Sequence[Stage] = ()
    vllm: bool = True


class Judge:
    def __init__(self, profile: Profile, context: int = 10, state: Optional[dict[str, Any]] = None) -> None:
        self.profile = profile
        self.context = context
        self.lines = 0
        self.ready: Optional[dict[str, Any]] = None
        self.failed: Optional[dict[str, Any]] = None
        self.stopping: Optional[dict[str, Any]] = None
        self.stages: list[dict[str, Any]] = []
        self.percent: Optional[int] = None
        self.facts: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.troubles: list[dict[str, Any]] = []
        self.blocks: dict[str, dict[str, Any]] = {}  # tracebacks that are being written, by process
        self.heads: dict[str, list[Any]] = {}  # the record that each process began last: head, fatal
        self.raw = ""  # the process whose traceback comes without signature
        self.recent: list[str] = []
        self.last = ""
        self.stamp = ""
        if state:
            self.__dict__.update(state)
        self._ready = list(profile.ready) + (list(patterns.READY) if profile.vllm else [])
        self._failed = list(profile.failed)
        self._ignore = list(profile.ignore) + (list(patterns.BENIGN) if profile.vllm else [])
        self._stages = list(profile.stages) + (list(STAGES) if profile.vllm else [])

    _KEPT = (
        "lines ready failed stopping stages percent facts warnings troubles blocks heads raw recent last stamp".split()
    )

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._KEPT}

    @property
    def decided(self) -> bool:
        return bool(self.ready or self.failed or self.stopping)

    def see(self, line: Line, now: float) -> None:
        """One more line; now: seconds since the wait began."""
        self.lines = line.number
        if line.stamp:
            self.stamp = line.stamp
        block = self.blocks.get(line.process)
        if block is None or not self._continues(block, line):
            self._fresh(line, now)
        if line.text:
            self.last = line.text
        if self.context:
            self.recent.append(mask(line.head + line.text)[:400])
            del self.recent[: -self.context]

    # --- records -----------------------------------------------------------------------------------------------

    def _fresh(self, line: Line, now: float) -> None:
        text = line.text
        if not text:
            return
        if any(p.regex.search(text) for p in self._ignore):
            self.heads[line.process] = [line.head, False]
            return
        for pattern in self._failed:
            match = pattern.regex.search(text) or pattern.regex.search(line.head + text)
            if match:
                said = match[1] if match.re.groups and match[1] is not None else text
                self._fail(line, pattern)
                self._trouble(line, mask(said), "stated", pattern)
                return
        if not self.ready:
            for pattern in self._ready:
                if pattern.regex.search(text) or pattern.regex.search(line.head + text):
                    self._become_ready(line, now)
                    return
            self._stage(line, now)
        if self.profile.vllm:
            self._vllm(line)

    def _vllm(self, line: Line) -> None:
        text = line.text
        if line.level in CALM or not line.level:
            self._fact(text)
            if patterns.LAUNCH[0].regex.search(text) and self.decided:
                self._start_anew(line)
            elif not self.failed and not self.stopping and any(p.regex.search(text) for p in patterns.STOPPING):
                self.stopping = self._matched(line)
        if line.level not in CALM and not self.stopping:
            self._alarm(line)

    def _alarm(self, line: Line) -> None:
        text = line.text
        process = _PROCESS.match(text) if not line.process else None
        if process:
            self.raw = process[1]
            self.heads[""] = [line.head, True]
            return
        fatal = next((p for p in patterns.FATAL if p.regex.search(text)), None)
        announced = fatal is not None or any(p.regex.search(text) for p in patterns.TROUBLE)
        if fatal:
            self._fail(line, fatal)
            cause = _cause(text)
            self._trouble(line, mask(text), "line" if cause and cause.kind != "engine_died" else "echo", cause)
        elif line.level and TRACEBACK not in text:
            self._trouble(line, mask(text), "error", _cause(text))
        before = self.heads.get(line.process)
        if TRACEBACK in text:
            if not announced:
                announced = bool(before and before[1] and (before[0] == line.head or not line.process))
            self.blocks[line.process] = {
                "number": line.number,
                "head": line.head.rstrip(),
                "level": line.level,
                "process": line.process or self.raw,
                "fatal": announced,
                "first": True,
                "module": False,
                "text": None,
                "at": 0,
                "earlier": None,
                "lines": [],
                "chain": False,
            }
            if not line.process:
                self.raw = ""
        self.heads[line.process] = [line.head, announced]

    def _continues(self, block: dict[str, Any], line: Line) -> bool:
        """Whether the line belongs to the traceback that its process is writing."""
        text, same = line.text, line.head.rstrip() == block["head"]
        if block["text"] is None:
            if not same:
                if block["level"] or line.level:
                    return line.level == "" or self._close(line.process)
                return False
            if not text or text[0] in " \t|+":
                if block["first"]:
                    block["module"] = bool(_MODULE.match(text))
                    block["first"] = False
                self._keep(block, line)
            elif _EXCEPTION.match(text):
                block["text"], block["at"] = [text], line.number
                self._keep(block, line)
                self._uncaught(block, line)
            return True
        if same and not text:
            block["blank"] = True
            return True
        if same and text in CHAINS:
            block["chain"] = True
            return True
        if same and block["chain"] and text.startswith(TRACEBACK):
            block["earlier"] = {"text": "\n".join(block["text"]), "at": block["at"], "before": block["earlier"]}
            block.update(text=None, at=0, first=True, module=False, chain=False, blank=False)
            return True
        if same and not block.get("blank") and len(block["text"]) < 12 and not text.startswith(TRACEBACK):
            if line.level or not _FOREIGN.match(text):
                block["text"].append(text)
                self._keep(block, line)
                return True
        return self._close(line.process)

    def _keep(self, block: dict[str, Any], line: Line) -> None:
        if self.context and line.text.strip(" ^~"):
            block["lines"].append(mask(line.text)[:400])
            del block["lines"][: -self.context]

    def _close(self, process: str) -> bool:
        block = self.blocks.pop(process)
        trouble = _exception(block)
        if trouble and block["level"] not in CALM:
            self._add(trouble)
        return False

    def _uncaught(self, block: dict[str, Any], line: Line) -> None:
        if not block["level"] and (block["module"] or block["fatal"]) and not self.stopping:
            if any(p.regex.search(line.text) for p in patterns.STOPPING):
                self.stopping = self._matched(line)
            else:
                block["fatal"] = True
                self._fail(line, None)

    # --- what it comes to --------------------------------------------------------------------------------------

    def _become_ready(self, line: Line, now: float) -> None:
        self.ready = self._matched(line)
        self._enter("ready", line.stamp or self.stamp, now)
        self.percent = None
        self.troubles = []
        self.blocks = {}

    def _fail(self, line: Line, pattern: Optional[Pattern]) -> None:
        if not self.failed and not self.stopping:
            self.failed = self._matched(line)

    def _start_anew(self, line: Line) -> None:
        """Another launch writes into the same log: what the one before said no longer counts."""
        self.ready = self.failed = self.stopping = None
        self.troubles, self.blocks, self.heads, self.facts, self.stages = [], {}, {}, {}, []
        self.warnings.append(f"Line {line.number} begins another launch; the lines before it were set aside.")

    def _trouble(self, line: Line, text: str, rank: str, cause: Optional[Pattern]) -> None:
        self._add(
            {
                "number": line.number,
                "start": line.number,
                "process": line.process,
                "text": text,
                "rank": rank,
                "kind": cause.kind if cause else "",
                "hint": cause.hint if cause else "",
                "context": list(self.recent),
            }
        )

    def _add(self, trouble: dict[str, Any]) -> None:
        if len(self.troubles) >= MOST:
            weak = next((t for t in self.troubles if t["rank"] in ("error", "exception")), None)
            if weak is None:
                return
            self.troubles.remove(weak)
        self.troubles.append(trouble)

    def cause(self) -> Optional[dict[str, Any]]:
        """The trouble at the root of all the others."""
        troubles = list(self.troubles)
        troubles += [t for b in self.blocks.values() if b["level"] not in CALM for t in [_exception(b)] if t]
        for rank in ("stated", "fatal", "line", "exception", "echo", "wrapper", "error"):
            found = [t for t in troubles if t["rank"] == rank]
            if found:
                last = rank in ("exception", "error", "echo")
                return (max if last else min)(found, key=lambda t: int(t["start"]))
        return None

    # --- stages and facts --------------------------------------------------------------------------------------

    def _stage(self, line: Line, now: float) -> None:
        for stage in self._stages:
            match = stage.regex.search(line.text)
            if match:
                name = stage.name or (match[1] if match.re.groups else match[0])
                if not any(s["name"] == name for s in self.stages):
                    self._enter(mask(name), line.stamp or self.stamp, now)
                break
        percent = PERCENT.match(line.text) if self.profile.vllm else None
        if percent:
            self.percent = int(percent[1])

    def _enter(self, name: str, stamp: str, now: float) -> None:
        self.percent = None
        self.stages.append({"name": name, "stamp": stamp, "now": round(now, 1)})

    def _fact(self, text: str) -> None:
        if self.ready:
            return
        for fact in FACTS:
            if fact.name not in self.facts:
                match = fact.regex.search(text)
                if match:
                    self.facts[fact.name] = fact.convert(match[1])

    def durations(self, now: float) -> list[dict[str, Any]]:
        """The stages with the seconds that each took: by the log's own clock where it has one."""
        shown = []
        for stage, after in zip(self.stages, self.stages[1:] + [None]):
            if stage["name"] == "ready":
                continue
            took = (after["now"] if after else now) - stage["now"]
            if after:
                begun, ended = seconds(stage["stamp"]), seconds(after["stamp"])
                if begun is not None and ended is not None:
                    took = (ended - begun) % (366 * 86400)
            shown.append({"name": stage["name"], "seconds": round(max(took, 0.0), 1)})
        return shown

    def _matched(self, line: Line) -> dict[str, Any]:
        return {
            "line": mask(line.head + line.text)[:2000],
            "number": line.number,
            "text": mask(line.text)[:2000],
        }


def _cause(text: str) -> Optional[Pattern]:
    return next((p for p in patterns.CAUSES if p.regex.search(text)), None)


def _exception(block: dict[str, Any]) -> Optional[dict[str, Any]]:
    """The exception that a traceback ends in, or an earlier one of its chain if only that one tells something."""
    if block["text"] is None:
        return None
    text, at = "\n".join(block["text"]).rstrip(), block["at"]
    wrapper = any(p.regex.search(text) for p in patterns.WRAPPERS)
    cause = _cause(text)
    earlier = block["earlier"]
    while earlier and (wrapper or cause is None):
        if not any(p.regex.search(earlier["text"]) for p in patterns.WRAPPERS) and (wrapper or _cause(earlier["text"])):
            text, at, wrapper, cause = earlier["text"], earlier["at"], False, _cause(earlier["text"])
        earlier = earlier["before"]
    return {
        "number": at,
        "start": block["number"],
        "process": block["process"],
        "text": mask(text),
        "rank": "wrapper" if wrapper else "fatal" if block["fatal"] else "exception",
        "kind": cause.kind if cause else "exception",
        "hint": cause.hint if cause else "",
        "context": block["lines"],
    }

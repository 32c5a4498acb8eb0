# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as what in a log."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns, stages, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Stage

CALM = ("DEBUG", "INFO", "WARNING")
"""Levels at which vLLM says many alarming things in passing."""

TELLING = re.compile(
    "|".join(
        f"(?:{regex.pattern})"
        for regex in (
            *(p.regex for p in (*patterns.READY, *patterns.STOPPING, *patterns.UNDERSTATED, *patterns.BENIGN)),
            patterns.LAUNCH.regex,
            *stages.TELLING,
            re.compile(re.escape(tracebacks.BEGIN)),
        )
    )
)
"""A line at a calm level must begin like this to tell anything, and few do."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """The user's patterns, and those of vLLM unless they are switched off."""

    ready: Sequence[Pattern] = ()
    failed: Sequence[Pattern] = ()
    ignore: Sequence[Pattern] = ()
    stages: Sequence[Stage] = ()
    vllm: bool = True

    @property
    def plain(self) -> bool:
        """Whether nobody added anything."""
        return self.vllm and not (self.ready or self.failed or self.ignore or self.stages)

    def anchors(self, ready: bool) -> tuple[bytes, ...]:
        """Words, one of which every line of consequence holds; none if any line may be one. ready: it is known to be."""
        if not self.vllm or self.stages:
            return ()
        own = [patterns.literal(p.regex.pattern) for p in (*self.failed, *(() if ready else self.ready))]
        if not all(own):
            return ()
        return (*patterns.ANCHORS, *(() if ready else patterns.ANCHORS_OF_READY), *(word.encode() for word in own))

"""The corpus: real and written logs, and what a reader says of each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._logs import scan
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import Scanner

CORPUS = Path(__file__).parents[2] / "corpus"
LABELS: dict[str, dict[str, Any]] = json.loads((CORPUS / "labels.json").read_text())


def log(name: str) -> bytes:
    return (CORPUS / f"{name}.log").read_bytes()


@dataclasses.dataclass
class Said:
    """All that a judge has to say, in a form that compares."""

    ready: Any
    failed: Any
    stopping: Any
    cause: Any
    stages: Any
    facts: Any
    lines: int


def judge(pieces: list[bytes], profile: Profile | None = None, *, attentive: int = scan.ATTENTIVE) -> Said:
    """What a judge says when a log comes in these pieces, the last line finished or not."""
    one = Judge(profile or Profile())
    scanner = Scanner(one, attentive)
    for piece in pieces:
        scanner.feed(piece, 0.0)
    return said(scanner.glance(0.0) or one)


def said(one: Judge) -> Said:
    return Said(
        one.ready, one.failed, one.stopping, one.cause(), one.progress.durations(0), one.progress.facts, one.lines
    )

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the doctor judges of one server. A judge looks at a subject and says what is wrong; none of them asks or writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges_run, judges_safety, judges_setup
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import WARNING, Finding, ranked
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject

JUDGES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    judges_run.process,
    judges_setup.drafter,
    judges_setup.build,
    judges_setup.versions,
    judges_setup.launch,
    judges_run.log,
    judges_run.silence,
    judges_run.probe,
    judges_run.counters,
    judges_safety.safety,
)
"""Causes before symptoms."""
ROOT = "Run the doctor as root (become)."
UNREAD = "Look whose process it is, and what it was started with."


def judge(subject: Subject) -> list[Finding]:
    """All findings, the worst first. What one judge can't cope with keeps none of the others from speaking."""
    found = list(subject.unseen)
    for look in JUDGES:
        try:
            found += look(subject)
        # It may be anything, since what is looked at is whatever somebody has started.
        except Exception as e:
            found.append(unseen(subject.server.pid, f"The {look.__name__}", e))
    return ranked(found)


def unseen(pid: int, what: str, error: Exception) -> Finding:
    """That something of a server can't be judged, and why. what: The files."""
    said = f"{error}" if isinstance(error, (OSError, RuntimeError)) else f"{type(error).__name__}: {error}"
    remedy = ROOT if isinstance(error, PermissionError) else UNREAD
    return Finding("sight", WARNING, f"{what} of pid {pid} can't be judged: {said}.", f"/proc/{pid}", remedy)

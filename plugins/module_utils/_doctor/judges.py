# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the doctor judges of one server. A judge looks at a subject and says what is wrong; none of them asks or writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges_run, judges_safety, judges_setup
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import Finding, ranked
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject

JUDGES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    judges_run.process,
    judges_setup.drafter,
    judges_setup.build,
    judges_setup.versions,
    judges_setup.launch,
    judges_run.log,
    judges_run.silence,
    judges_run.counters,
    judges_safety.safety,
)
"""Causes before symptoms."""


def judge(subject: Subject) -> list[Finding]:
    """All findings, the worst first."""
    return ranked(finding for look in JUDGES for finding in look(subject))

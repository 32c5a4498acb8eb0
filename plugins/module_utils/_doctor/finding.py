# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

ERROR, WARNING, NOTE = "error", "warning", "note"
"""What costs most of what the drafter gains, or the server; what may; what is to be known."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be. check: which judge says so; what and remedy: sentences; evidence: where it was seen."""

    check: str
    severity: str
    what: str
    evidence: str
    remedy: str


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first; among those that are alike, causes as they come, before the symptoms that come after them."""
    return sorted(findings, key=lambda finding: (ERROR, WARNING, NOTE).index(finding.severity))


def worst(findings: Iterable[Finding]) -> str:
    """The severity of the worst; ok if there is none but notes."""
    severities = {finding.severity for finding in findings}
    return next((severity for severity in (ERROR, WARNING) if severity in severities), "ok")

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the drafter modules have in common: their options, the evidence these bring together, and how the verdict is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import (
    claims,
    drafter,
    engines,
    formats,
    jsontext,
    judgement,
    loading,
    rules_layers,
    target,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, NOTE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "values": {"type": "dict", "default": {}},
    "reference": {"type": "path"},
    "profile": {"type": "str", "default": "auto"},
    "profiles": {"type": "dict", "default": {}},
    "target": {"type": "path"},
    "engine": {
        "type": "dict",
        "options": {"version": {"type": "str"}, "runner": {"type": "str", "choices": ["v1", "v2"]}},
    },
    "python": {"type": "path"},
}


@dataclasses.dataclass(frozen=True)
class Judgement:
    """case: the config that is told about, as found or as mended. effective: None where the loader refuses that.

    remaining: the errors that nothing mends.
    """

    drafter: drafter.Drafter
    verdict: judgement.Verdict
    case: Case
    effective: dict[str, Any] | None
    findings: list[Finding]
    remaining: list[Finding]

    def text(self) -> str:
        """The mended config.json: the drafter's own, with nothing else changed than what is mended."""
        text = self.drafter.text
        for path, value in self.verdict.edits.items():
            text = jsontext.set_value(text, path, value)
        if not formats.same(json.loads(text), self.verdict.mended.config):
            raise RefusedError(f"{self.drafter.path} can't be mended as text, which is a fault of this collection")
        return text

    @property
    def lasting_warnings(self) -> list[Finding]:
        """The warnings about what is served."""
        written = {formats.key(path) for path in self.verdict.edits}
        return [f for f in self.findings if f.severity == WARNING and f.key not in written]

    def as_found(self) -> dict[str, Any]:
        """The result where nothing is written."""
        case = self.verdict.found
        effective = None if case.effective.refusal else case.effective.values
        return dataclasses.replace(self, case=case, effective=effective).public()

    def public(self) -> dict[str, Any]:
        return {
            "config": dict(self.case.config),
            "effective": self.effective,
            "expected_aux_layers": rules_layers.aux_layers(self.case),
            "findings": [finding.public() for finding in self.findings],
            "format": self.case.form.name,
            "num_speculative_tokens": rules_layers.speculative_tokens(self.case),
            "path": self.drafter.directory,
        }

    def complaint(self) -> str:
        lines = "".join(f"\n  {finding}" for finding in self.remaining)
        return f"The drafter in {self.drafter.directory} can't be served as it is, and nothing was written:{lines}"


def judge(params: Mapping[str, Any], mended: bool) -> Judgement:
    """The judgement over a drafter, told of its config as mended or as found."""
    for name, value in params.items():
        if isinstance(value, str) and "\0" in value:
            raise RefusedError(f"{name} has a null character in it")
        if jsontext.unusable(value):
            raise RefusedError(f"{name} can't be used: {jsontext.unusable(value)}")
    found = drafter.read_drafter(params["path"])
    asked = params["engine"] or {}
    case = Case(
        found.config,
        found.form,
        found.weights,
        target.read_target(params["target"]) if params["target"] else None,
        engines.parse(asked.get("version"), asked.get("runner")),
    )
    evidence = claims.gather(params, found)
    verdict = judgement.judge(case, evidence.claims)
    told = verdict.mended if mended else verdict.found
    effective, differences = _load(params["python"], told)
    findings = [*verdict.findings, *evidence.hints(verdict.mended), *differences]
    remaining = [*verdict.remaining, *(finding for finding in differences if finding.severity == ERROR)]
    return Judgement(found, verdict, told, effective, sorted(findings, key=_weight), remaining)


def _weight(finding: Finding) -> int:
    return (ERROR, WARNING, NOTE).index(finding.severity)


def _load(python: str | None, case: Case) -> tuple[dict[str, Any] | None, list[Finding]]:
    """What the loader makes of a config, and where that is another thing than predicted."""
    if not python or case.form is formats.SPECULATORS:
        return (None if case.effective.refusal else case.effective.values), []
    answer = loading.ask(python, case.config)
    return (None if answer.refusal else answer.values), list(loading.compare(case, answer, python))

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a drafter and all that is claimed about it to a verdict: what is wrong, what mends it, what remains wrong.

The weights and the target outrank every claim. So a claim is tried on the config, and what they say against the result is
an error that shows both sides.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, NOTE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import SLIDING
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.rules import examine

_ROUNDS = 5  # a mend may call for another, and no chain of them is longer
_WINDOW = ("layer_types", "sliding_window", "use_sliding_window")


@dataclasses.dataclass(frozen=True)
class Claim:
    """What somebody says is right: facts in canonical terms, and by path what is no fact."""

    source: str
    facts: Mapping[str, Any]
    plain: Mapping[Path, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """found and mended: the two cases. edits: what leads from one to the other. remaining: the errors of the mended one."""

    found: Case
    mended: Case
    edits: Mapping[Path, Any]
    findings: list[Finding]
    remaining: list[Finding]


def judge(found: Case, claims: list[Claim]) -> Verdict:
    """claims: the strongest first."""
    said, known = _merge(found, claims)

    def case(config: Mapping[str, Any]) -> Case:
        form = formats.detect(config) or found.form
        settled = frozenset(f for f, value in known.items() if formats.read(config, form, f) == value)
        return dataclasses.replace(found, config=config, form=form, settled=settled)

    found = case(found.config)
    edits = {
        path: value
        for path, (value, _source) in said.items()
        if not formats.same(formats.look(found.config, path), value)
    }
    mended = case(_apply(found.config, edits))
    for _round in range(_ROUNDS):
        more = _more(mended, edits, said)
        if not more:
            break
        edits.update(more)
        mended = case(_apply(found.config, edits))
    sources = {formats.key(path): source for path, (_value, source) in said.items()}
    after = {(f.key, f.why): _told(f, sources.get(f.key)) for f in examine(mended)}
    remaining = [finding for finding in after.values() if finding.severity == ERROR]
    return Verdict(found, mended, edits, _report(found, edits, sources, after), remaining)


_Said = dict[Path, tuple[Any, str]]


def _merge(case: Case, claims: list[Claim]) -> tuple[_Said, dict[str, Any]]:
    """What is claimed, by path with its source, and by fact; of two claims the stronger."""
    said: _Said = {}
    known: dict[str, Any] = {}
    for claim in reversed(claims):
        known.update(claim.facts)
        for fact, value in claim.facts.items():
            written = formats.encode(case.form, fact, value)
            for path in case.places(fact):
                there = formats.look(case.config, path)
                # 1e7 for 10000000 is no reason to change a file.
                equal = fact == "rope_theta" and there == written
                said[path] = (there if equal else written, claim.source)
        said.update({path: (value, claim.source) for path, value in claim.plain.items()})
    return said, known


def _apply(config: Mapping[str, Any], edits: Mapping[Path, Any]) -> dict[str, Any]:
    result = copy.deepcopy(dict(config))
    for path, value in edits.items():
        formats.put(result, path, value)
    return result


def _more(case: Case, edits: Mapping[Path, Any], said: _Said) -> dict[Path, Any]:
    """What the evidence itself mends, beyond what is claimed."""
    wanted = {path: finding.wanted for finding in examine(case) for path in finding.mend}
    # A window is written whole: with its size and the types of layers go the two keys that make transformers keep it.
    touched = any(path in edits for fact in _WINDOW for path in case.places(fact)) and not case.form.shift
    types, layers = case.get("layer_types"), case.loaded("num_hidden_layers")
    if touched and isinstance(types, list) and SLIDING in types and is_int(layers):
        together = {"use_sliding_window": True, "max_window_layers": layers}
        wanted.update({path: value for fact, value in together.items() for path in case.places(fact)})
    return {p: v for p, v in wanted.items() if p not in said and not formats.same(formats.look(case.config, p), v)}


def _told(finding: Finding, source: str | None) -> Finding:
    """An error in a value that somebody vouches for shows both sides."""
    against = source and finding.severity == ERROR
    return dataclasses.replace(finding, why=f"contrary to {source}, {finding.why}") if against else finding


def _report(
    found: Case, edits: Mapping[Path, Any], sources: Mapping[str, str], after: Mapping[tuple[str, str], Finding]
) -> list[Finding]:
    """What is wrong with the file as found, what is written instead, and what remains to be said of the result."""
    written = {formats.key(path): (path, value) for path, value in edits.items()}
    explained = {finding.key for finding in after.values() if finding.severity == ERROR}
    report = []
    rest = dict(after)
    for finding in examine(found):
        same = rest.pop((finding.key, finding.why), None)
        if same is None and finding.key in written and finding.key not in explained and finding.severity != NOTE:
            if finding.severity == WARNING:
                continue
            explained.add(finding.key)
            wanted, evidence = written[finding.key][1], sources.get(finding.key, finding.evidence)
            why = finding.why.partition("; assert ")[0]  # which was done
            finding = dataclasses.replace(finding, wanted=wanted, evidence=evidence, why=why)
        report.append(same or finding)
    for key, (path, value) in written.items():
        if key not in explained:
            why = (
                "the right value is another"
                if key in sources
                else "written with the window, so that the loader keeps it"
            )
            evidence = sources.get(key, "the rules of the loader")
            report.append(Finding(key, formats.look(found.config, path), value, ERROR, why, evidence))
    return [*report, *rest.values()]

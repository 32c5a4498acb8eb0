# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a drafter and all that is claimed about it to a verdict: what is wrong, what mends it, what remains.

The weights and the target outrank every claim: a claim is tried on the config, and whatever they say against the result is an error that
shows both sides.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats, jsontext
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import SLIDING, Effective, predict
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.engines import Engine
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, Format, is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.rules import (
    ERROR,
    Case,
    Finding,
    examine,
    speculative_tokens,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.target import Target
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Weights

_WINDOW = ("layer_types", "sliding_window", "use_sliding_window")


@dataclasses.dataclass(frozen=True)
class Claims:
    """What somebody says is right: facts in canonical terms, and plain paths for keys that are no facts."""

    source: str
    facts: Mapping[str, Any]
    plain: Mapping[Path, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """findings: of the file as found. edits: what mends it, in order. remaining: the errors of the mended file."""

    form: Format
    findings: list[Finding]
    edits: dict[Path, Any]
    remaining: list[Finding]
    config: dict[str, Any]
    effective: Effective
    num_speculative_tokens: int | None
    expected_aux_layers: list[int]


def judge(
    config: dict[str, Any],
    form: Format,
    weights: Weights,
    target: Target | None,
    engine: Engine,
    claims: list[Claims],
) -> Verdict:
    """claims: the strongest first."""
    said: dict[Path, tuple[Any, str]] = {}
    known: dict[str, tuple[Any, str]] = {}
    for claim in reversed(claims):
        for fact, value in claim.facts.items():
            known[fact] = (value, claim.source)
            said.update(
                {path: (formats.encode(form, fact, value), claim.source) for path in formats.places(config, form, fact)}
            )
        said.update({path: (value, claim.source) for path, value in claim.plain.items()})

    def case(document: dict[str, Any]) -> Case:
        settled = (f for f, (value, _s) in known.items() if formats.read(document, form, f) == value)
        return Case(document, form, weights, target, engine, frozenset(settled))

    edits = {path: value for path, (value, _source) in said.items() if formats.look(config, path) != value}
    while True:
        mended = apply(config, edits)
        more = {
            path: value
            for finding in examine(case(mended))
            for path, value in finding.mend
            if path not in said and formats.look(mended, path) != value
        }
        more.update(_together(case(mended), {**edits, **more}, set(said)))
        if not more:
            break
        edits.update(more)
    before, after = case(config), case(mended)
    remaining = [f for f in examine(after) if f.severity == ERROR]
    return Verdict(
        form,
        _report(before, edits, said, remaining),
        edits,
        remaining,
        mended,
        predict(mended, form),
        speculative_tokens(after),
        aux_layers(after),
    )


def aux_layers(case: Case) -> list[int]:
    """The layers that the engine will log as the auxiliary ones."""
    ids = case.get("target_layer_ids")
    if not isinstance(ids, list) or not all(is_int(i) for i in ids):
        return []
    shifted = case.engine.shifts_ids or case.form is formats.SPECULATORS
    return [i + 1 for i in ids] if shifted else list(ids)


def apply(config: dict[str, Any], edits: Mapping[Path, Any]) -> dict[str, Any]:
    """A copy of the config with some values set; the sections on their way are made."""
    result = copy.deepcopy(config)
    for path, value in edits.items():
        place: Any = result
        for name in path[:-1]:
            if isinstance(place, dict) and name not in place:
                place[name] = {}
            place = formats.look(place, (name,))
        if isinstance(place, dict):
            place[path[-1]] = value
        elif isinstance(place, list) and isinstance(path[-1], int) and 0 <= path[-1] < len(place):
            place[path[-1]] = value
        else:
            raise jsontext.NoSuchPlaceError(formats.key(path))
    return result


def _together(case: Case, edits: Mapping[Path, Any], said: set[Path]) -> dict[Path, Any]:
    """A window is written whole: with the types and its size go the two keys that make the loader keep it."""
    touched = {path for fact in _WINDOW for path in case.places(fact)} & set(edits)
    types, layers = case.get("layer_types"), case.loaded("num_hidden_layers")
    if not touched or not isinstance(types, list) or SLIDING not in types or not is_int(layers):
        return {}
    wanted = {"use_sliding_window": True, "max_window_layers": layers}
    return {
        path: value
        for fact, value in wanted.items()
        for path in case.places(fact)
        if path not in said and formats.look(case.config, path) != value
    }


def _report(
    case: Case, edits: Mapping[Path, Any], said: Mapping[Path, tuple[Any, str]], remaining: list[Finding]
) -> list[Finding]:
    """One finding for each key: what was found, what is written instead, and why."""
    found = {finding.key: finding for finding in examine(case)}
    report: dict[str, Finding] = {}
    for path, value in edits.items():
        name = formats.key(path)
        known = found.get(name)
        source = said[path][1] if path in said else None
        if known is None:
            why = (
                "it is not what is asserted"
                if source
                else "it is written together with the window, so that the loader keeps it"
            )
            known = Finding(
                name, formats.look(case.config, path), value, ERROR, why, source or "the rules of the loader"
            )
        report[name] = dataclasses.replace(known, wanted=value, evidence=source or known.evidence, severity=ERROR)
    asserted = {formats.key(path): source for path, (_value, source) in said.items()}
    for finding in remaining:
        source = asserted.get(finding.key)
        why = f"{source} say so, but {finding.why}" if source else finding.why
        report[finding.key] = dataclasses.replace(finding, why=why)
    for name, finding in found.items():
        report.setdefault(name, finding)
    return list(report.values())


def line(finding: Finding) -> str:
    """A finding as one line for a person."""
    wanted = "" if finding.wanted is MISSING else f", wanted {_say(finding.wanted)}"
    return f"{finding.key}: found {_say(finding.found)}{wanted} — {finding.why} ({finding.evidence})"


def _say(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) > 1 and len(set(map(str, value))) == 1:
        return f"{len(value)} x {_say(value[0])}"
    return str(value).replace("'", "") if not isinstance(value, bool) else str(value).lower()

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both drafter modules share: their options, the judgement over them, and how it is told."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import (
    catalogue,
    drafter,
    engines,
    formats,
    judgement,
    jsontext,
    target,
    weights,
)

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "values": {"type": "dict", "default": {}},
    "reference": {"type": "path"},
    "profile": {"type": "str", "default": "auto"},
    "profiles": {"type": "dict", "default": {}},
    "target": {"type": "path"},
    "engine": {
        "type": "dict",
        "default": {},
        "options": {"version": {"type": "str"}, "runner": {"type": "str", "choices": ["v1", "v2"]}},
    },
    "python": {"type": "path"},
}
REFUSALS = (
    drafter.UnreadableDrafterError,
    weights.UnreadableWeightsError,
    target.UnreadableTargetError,
    catalogue.UnknownProfileError,
    jsontext.NoSuchPlaceError,
    ValueError,
)


def judge(params: Mapping[str, Any]) -> tuple[drafter.Drafter, judgement.Verdict]:
    found = drafter.read_drafter(params["path"])
    asked = params["engine"] or {}
    verdict = judgement.judge(
        found.config,
        found.form,
        found.weights,
        target.read_target(params["target"]) if params["target"] else None,
        engines.parse(asked.get("version"), asked.get("runner")),
        _claims(params, found),
    )
    return found, verdict


def _claims(params: Mapping[str, Any], found: drafter.Drafter) -> list[judgement.Claims]:
    claims = []
    if params["values"]:
        claims.append(judgement.Claims("your values", *formats.understand(params["values"], found.form)))
    if params["reference"]:
        _text, config = drafter.read_config(params["reference"])
        form = formats.detect(config)
        if form is None:
            raise drafter.UnreadableDrafterError(f"the reference {params['reference']} is no DFlash drafter's config")
        known = {f: v for f, v in formats.facts(config, form).items() if f in found.form.places}
        claims.append(judgement.Claims(f"the reference {params['reference']}", known))
    entry = _entry(params, found)
    if entry is not None:
        claims.append(
            judgement.Claims(
                f"the catalogue's {entry.names[0]} ({entry.source})", catalogue.facts_of(entry, found.form)
            )
        )
    return claims


def _entry(params: Mapping[str, Any], found: drafter.Drafter) -> catalogue.Entry | None:
    profile, own = params["profile"], catalogue.user_entries(params["profiles"] or {})
    entries = own + catalogue.ENTRIES
    if profile == "none":
        return None
    if profile != "auto":
        return catalogue.named(entries, profile, found.weights)
    entry = catalogue.matching(entries, found.names, found.weights)
    return entry if entry and entry.confidence == catalogue.HIGH else None


def public(verdict: judgement.Verdict) -> dict[str, Any]:
    return {
        "findings": [finding.public() for finding in verdict.findings],
        "config": verdict.config,
        "effective": verdict.effective.values,
        "format": verdict.form.name,
        "num_speculative_tokens": verdict.num_speculative_tokens,
        "expected_aux_layers": verdict.expected_aux_layers,
    }


def as_found(found: drafter.Drafter, verdict: judgement.Verdict) -> dict[str, Any]:
    """The judgement over a drafter that is left as it is."""
    return dict(
        public(verdict),
        config=found.config,
        effective=judgement.predict(found.config, found.form).values,
        path=found.directory,
    )


def complaint(found: drafter.Drafter, verdict: judgement.Verdict) -> str:
    lines = [judgement.line(f) for f in verdict.findings if f.key in {r.key for r in verdict.remaining}]
    return f"The drafter in {found.directory} can't be served as it is, and nothing was written:\n  " + "\n  ".join(
        lines
    )


def not_in_place(found: drafter.Drafter) -> str | None:
    """Why a config.json must not be changed where it is; None if it may be."""
    if os.path.islink(found.path):
        return (
            f"{found.path} is a link to {os.path.realpath(found.path)}, which other revisions may share; "
            "nothing was written. Write an overlay with dest instead."
        )
    if re.search(r"/models--[^/]+/snapshots/", os.path.realpath(found.path)):
        return (
            f"{found.path} lies in the cache of a hub, where the next download would undo the mend; "
            "nothing was written. Write an overlay with dest instead."
        )
    return None

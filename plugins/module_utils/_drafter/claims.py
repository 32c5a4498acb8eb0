# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who claims what about a drafter: the user's values, a reference, the catalogue, in this order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import catalogue, formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.catalogue import Entry
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.drafter import (
    Drafter,
    UnreadableDrafterError,
    read_config,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, Format
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.judgement import Claim

# What an entry says of these is written even where the file is silent. The rest the weights prove, or it only informs.
_DECIDING = frozenset(
    (
        "mask_token_id",
        "target_layer_ids",
        "block_size",
        "layer_types",
        "sliding_window",
        "is_causal",
        "rope_theta",
        "selector_top_k",
        "draft_vocab_size",
        "target_hidden_size",
        "num_speculative_tokens",
    )
)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """claims: the strongest first. doubtful: an entry of the catalogue that may be this drafter's, and why it may."""

    claims: list[Claim]
    doubtful: Entry | None = None
    reason: str = ""

    def hints(self, case: Case) -> Iterator[Finding]:
        """Where a doubtful entry has other values than the config."""
        if self.doubtful is None:
            return
        name = self.doubtful.names[0]
        for fact, value in _said_by(self.doubtful, case).items():
            if fact not in case.weights.proofs and fact not in case.settled and case.get(fact) != value:
                written = formats.encode(case.form, fact, value)
                why = f"{self.reason}, which has {written}; profile: {name} would write that"
                yield case.say(fact, why, f"the catalogue: {self.doubtful.source}", WARNING)


def gather(params: Mapping[str, Any], found: Drafter) -> Evidence:
    form = found.form
    claims = []
    if params["values"]:
        claims.append(Claim("your values", *formats.understand(params["values"], form)))
    if params["reference"]:
        claims.append(_reference(params["reference"], form))
    if params["profile"] == "none":
        return Evidence(claims)
    entries = (*_profiles(params["profiles"] or {}, form), *catalogue.ENTRIES)
    if params["profile"] != "auto":
        entry = catalogue.named(entries, params["profile"], found.weights)
        return Evidence([*claims, _catalogued(entry, found)])
    candidates = catalogue.known_as(entries, found.names)
    fitting = [entry for entry in candidates if entry.agrees(found.weights)]
    if fitting and fitting[0].confidence == catalogue.HIGH:
        return Evidence([*claims, _catalogued(fitting[0], found)])
    if fitting:
        return Evidence(claims, fitting[0], f"of medium confidence only it may be {fitting[0].names[0]}")
    alike = None if candidates else catalogue.shaped_like(entries, found.weights)
    return Evidence(claims, alike, f"the weights are shaped like {alike.names[0]}'s" if alike else "")


def _profiles(profiles: Mapping[str, Any], form: Format) -> Iterator[Entry]:
    for name, values in profiles.items():
        if not isinstance(values, dict):
            raise ValueError(f"profiles: {name} must be a dictionary like values")
        yield Entry((name,), catalogue.HIGH, "your own profiles", *formats.understand(values, form))


def _reference(path: str, form: Format) -> Claim:
    _text, config = read_config(path)
    other = formats.detect(config)
    if other is None:
        raise UnreadableDrafterError(f"reference: {path} is no DFlash drafter's config")
    facts = {fact: value for fact, value in formats.facts(config, other).items() if fact in form.places}
    if other is not form:
        facts = {fact: value for fact, value in facts.items() if fact not in ("architectures", "model_type")}
    return Claim(f"says the reference {path}", facts)


def _catalogued(entry: Entry, found: Drafter) -> Claim:
    facts = {f: v for f, v in entry.facts.items() if f in found.form.places}
    facts = {
        f: v for f, v in facts.items() if f in _DECIDING or formats.read(found.config, found.form, f) is not MISSING
    }
    return Claim(f"the catalogue's {entry.names[0]} ({entry.source})", facts, entry.plain)


def _said_by(entry: Entry, case: Case) -> dict[str, Any]:
    return {f: v for f, v in entry.facts.items() if f in case.form.places and (f in _DECIDING or case.has(f))}

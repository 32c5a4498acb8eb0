# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who claims what about a drafter: the user's values, a reference, the catalogue, in this order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import catalogue, formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import NOTE, WARNING, Case, Finding, spoken
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.catalogue import Entry
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.drafter import Drafter, read_config
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, Format
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.judgement import Claim
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

# What somebody says of these is written even where the file is silent. The rest the weights prove, or it only informs.
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
    )
)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """claims: the strongest first. doubtful: an entry of the catalogue that may be this drafter's. doubt: why it may not.

    namesake: an entry that has the drafter's name, but other weights.
    """

    claims: list[Claim]
    doubtful: Entry | None = None
    doubt: str = ""
    namesake: Entry | None = None

    def hints(self, case: Case) -> Iterator[Finding]:
        """Where a doubtful entry has other values than the config."""
        if self.namesake:
            why = f"it is named like {self.namesake.names[0]}, but has other weights: it was retrained, or is another drafter"
            yield Finding("profile", "auto", MISSING, NOTE, why, f"the catalogue: {self.namesake.source}")
        if self.doubtful is None:
            return
        name = self.doubtful.names[0]
        for fact, value in _relevant(self.doubtful.facts, case.config, case.form).items():
            if fact not in case.weights.proofs and fact not in case.settled and case.get(fact) != value:
                written = spoken(formats.encode(case.form, fact, value))
                why = f"{name} has {written}, and this drafter has its {self.doubt}; if it is that one, say so with profile"
                yield case.say(fact, why, f"the catalogue: {self.doubtful.source}", WARNING)


def gather(params: Mapping[str, Any], found: Drafter) -> Evidence:
    form, weights = found.form, found.weights
    claims = []
    if params["values"]:
        claims.append(Claim("your values", *formats.understand(params["values"], form)))
    if params["reference"]:
        claims.append(_reference(params["reference"], found))
    if params["profile"] == "none":
        return Evidence(claims)
    entries = (*_profiles(params["profiles"] or {}, form), *catalogue.ENTRIES)
    if params["profile"] != "auto":
        return Evidence([*claims, _catalogued(catalogue.named(entries, params["profile"], form, weights), found)])
    candidates = catalogue.known_as(entries, found.names)
    entry = next((entry for entry in candidates if entry.fits(form, weights)), None)
    if entry and entry.confidence == catalogue.HIGH:
        return Evidence([*claims, _catalogued(entry, found)])
    if entry:
        return Evidence(claims, entry, "name, but what is known of that isn't sure")
    if candidates:
        return Evidence(claims, namesake=candidates[0])
    entry = catalogue.shaped_like(entries, form, weights)
    return Evidence(claims, entry, "shapes, but not its name")


def _profiles(profiles: Mapping[str, Any], form: Format) -> Iterator[Entry]:
    for name, values in profiles.items():
        if not isinstance(values, dict):
            raise RefusedError(f"profiles: {name} must be a dictionary like values")
        yield Entry((name,), catalogue.ANY, catalogue.HIGH, "your profiles", *formats.understand(values, form))


def _reference(path: str, found: Drafter) -> Claim:
    try:
        _text, config = read_config(path)
    except RefusedError as e:
        raise RefusedError(f"reference: {e}") from None
    form = formats.detect(config)
    if form is None:
        raise RefusedError(f"reference: {path} is no DFlash drafter's config")
    facts = formats.facts(config, form)
    if form is not found.form:
        facts = {f: v for f, v in facts.items() if f not in ("architectures", "model_type")}
        facts = _relevant(facts, found.config, found.form)
    return Claim(f"the reference {path}", facts)


def _catalogued(entry: Entry, found: Drafter) -> Claim:
    source = f"the catalogue's {entry.names[0]} ({entry.source})"
    return Claim(source, _relevant(entry.facts, found.config, found.form), entry.plain)


def _relevant(facts: Mapping[str, Any], config: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """What decides, or what the config speaks of as well."""
    known = {fact: value for fact, value in facts.items() if fact in form.places}
    return {f: v for f, v in known.items() if f in _DECIDING or formats.read(config, form, f) is not MISSING}

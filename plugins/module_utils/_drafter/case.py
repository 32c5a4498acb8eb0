# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule looks at, and what it says."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import Effective, predict
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.engines import Engine
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING, Format, is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.target import Target
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Weights

ERROR, WARNING, NOTE = "error", "warning", "note"
FILE = "the config itself"
_LONGEST = 200  # of a value in a message; the finding has it whole


@dataclasses.dataclass(frozen=True)
class Finding:
    """wanted: MISSING where nothing says the right value. mend: the paths to write it to, where the evidence decides."""

    key: str
    found: Any
    wanted: Any
    severity: str
    why: str
    evidence: str
    mend: tuple[Path, ...] = ()

    def public(self) -> dict[str, Any]:
        shown = {field: getattr(self, field) for field in ("key", "found", "wanted", "severity", "why", "evidence")}
        return {field: None if value is MISSING else value for field, value in shown.items()}

    def __str__(self) -> str:
        wanted = "" if self.wanted is MISSING else f", wanted {spoken(self.wanted)}"
        return f"{self.key}: found {spoken(self.found)}{wanted} — {self.why} ({self.evidence})"


@dataclasses.dataclass(frozen=True)
class Case:
    """One config and all that is known beside it. settled: the facts whose value somebody vouches for."""

    config: Mapping[str, Any]
    form: Format
    weights: Weights
    target: Target | None
    engine: Engine
    settled: frozenset[str] = frozenset()

    @functools.cached_property
    def effective(self) -> Effective:
        return predict(self.config, self.form)

    def get(self, fact: str) -> Any:
        return formats.read(self.config, self.form, fact)

    def number(self, fact: str) -> int | None:
        value = self.get(fact)
        return value if is_int(value) else None

    def has(self, fact: str) -> bool:
        """Whether the file says something about a fact; null says nothing."""
        return self.get(fact) not in (MISSING, None)

    def loaded(self, fact: str) -> Any:
        """What the engine takes a fact for, with the loader's default where the file is silent."""
        values = self.effective.values
        if fact == "head_dim" and values[fact] is None:
            hidden, heads = self.number("hidden_size"), self.number("num_attention_heads")
            return hidden // heads if hidden and heads else None
        return values[fact] if fact in values else self.get(fact)

    def places(self, fact: str) -> tuple[Path, ...]:
        return formats.places(self.config, self.form, fact)

    def key(self, fact: str) -> str:
        return formats.key(self.places(fact)[0])

    def say(
        self, fact: str, why: str, evidence: str = FILE, severity: str = ERROR, wanted: Any = MISSING, mend: bool = True
    ) -> Finding:
        """A finding about a fact, its values as this format writes them. A wanted value is written, unless mend is off."""
        found, wanted = (formats.encode(self.form, fact, value) for value in (self.get(fact), wanted))
        paths = self.places(fact) if mend and wanted is not MISSING else ()
        return Finding(self.key(fact), found, wanted, severity, why, evidence, paths)

    @property
    def is_dflash2(self) -> bool:
        return self.form is formats.DFLASH2 or (self.form is formats.SPECULATORS and self.weights.convolves)

    @functools.cached_property
    def target_layers(self) -> tuple[int, str] | None:
        """How many layers the target has, and who says so."""
        if self.target and self.target.num_hidden_layers:
            return self.target.num_hidden_layers, f"{self.target.config}: num_hidden_layers"
        stated = self.number("num_target_layers")
        return (stated, f"{FILE}: num_target_layers {stated}") if stated and stated > 0 else None

    @functools.cached_property
    def width(self) -> int | None:
        """How wide the hidden states are that the target hands over, one layer's."""
        stated = self.number("target_hidden_size")
        if stated and stated > 0:
            return stated
        proof = self.weights.proofs.get("hidden_size")
        loaded = proof.value if proof else self.loaded("hidden_size")
        return loaded if is_int(loaded) and loaded > 0 else None


def spoken(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, list):
        alike = len(value) > 1 and all(formats.same(item, value[0]) for item in value)
        text = f"{len(value)} x {spoken(value[0])}" if alike else "[" + ", ".join(map(spoken, value)) + "]"
    elif isinstance(value, str) and value.isprintable() and formats.spelt(value) is MISSING:
        text = value
    else:
        text = str(value) if value is MISSING else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

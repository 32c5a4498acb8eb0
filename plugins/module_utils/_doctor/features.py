# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a known fault may depend on besides the version: a feature is a name and what a subject must be to have it."""

from __future__ import annotations

import os
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import hub, placement
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject

ENOUGH = 100  # drafts, fewer of which tell nothing
PROMPTS = 20_000  # generated tokens, before which prompts may just have had nothing in common
WEAK = 2.0  # acceptance length, under which a drafter hardly pays

FEATURES: dict[str, Callable[[Subject], bool]] = {
    # the drafter
    "dflash": lambda one: one.is_dflash,
    "dflash2": lambda one: one.is_dflash and "DFlash2DraftModel" in _architectures(one, one.drafter),
    "weak": lambda one: _length(one) is not None and (_length(one) or 0) < WEAK,
    "drafter-unpinned": lambda one: _is_hub_name(one, one.server.speculative.get("model")) and not one.server.speculative.get("revision"),
    "keeps-eagle-blocks": lambda one: one.server.speculative.get("disable_eagle_block_drop") is True,
    # the target
    "wrapped-target": lambda one: any(name.endswith("ForConditionalGeneration") for name in _architectures(one, one.target)),
    "quantised-target": lambda one: "quantization_config" in one.config(one.target) or bool(one.server.flags.get("quantization")),
    "hub-name": lambda one: _is_hub_name(one, one.server.model),
    "asks-hub": lambda one: one.server.environment is not None and one.server.variable("HF_HUB_OFFLINE").lower() not in ("1", "true", "yes", "on"),
    # the engine
    "runner-v2": lambda one: one.runner == "v2",
    "prefix-caching": lambda one: one.server.flags.get("enable-prefix-caching", True) is not False,
    "no-prefix-hits": lambda one: one.counters.cache_hits == 0 and (one.counters.generated or 0) >= PROMPTS,
    "fp8-kv": lambda one: str(one.server.flags.get("kv-cache-dtype", "")).startswith("fp8"),
    "flashinfer": lambda one: "flashinfer" in (_backend(one.server.flags), _backend(one.server.speculative)),
    "from-source": lambda one: one.from_source,
    "asleep": lambda one: one.counters.asleep,
    # several hosts
    "several-hosts": lambda one: placement.spans_hosts(one.server.flags),
    "ray": lambda one: placement.by_ray(one.server.flags),
    # the unit
    "unit-restarts-on-failure": lambda one: one.unit.get("Restart") in ("on-failure", "on-abnormal", "on-abort", "no"),
    "unit-waits-for-notify": lambda one: one.unit.get("Type") == "notify",
    "unit-spares-children": lambda one: one.unit.get("KillMode") in ("process", "none"),
}  # fmt: skip


def of(subject: Subject) -> set[str]:
    return {name for name, has in FEATURES.items() if has(subject)}


def _length(subject: Subject) -> float | None:
    drafting = subject.counters.drafting
    return drafting.acceptance_length if drafting and drafting.drafts >= ENOUGH else None


def _architectures(subject: Subject, directory: str) -> list[str]:
    told = subject.config(directory).get("architectures")
    return [name for name in told if isinstance(name, str)] if isinstance(told, list) else []


def _backend(told: dict[str, Any]) -> str:
    return str(told.get("attention-backend") or told.get("attention_backend") or "").lower()


def _is_hub_name(subject: Subject, model: Any) -> bool:
    """A path that is there goes before a name."""
    if not isinstance(model, str) or not hub.NAME.fullmatch(model) or not subject.server.cwd or subject.blind:
        return False
    return not os.path.isdir(os.path.join(subject.server.cwd, model))

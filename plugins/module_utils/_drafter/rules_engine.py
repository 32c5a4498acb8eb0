# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine that will load the drafter refuses or ignores."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import engines, formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, NOTE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import windows


def engine(case: Case) -> Iterator[Finding]:
    asked = case.engine
    # A build from source may have what its version hasn't, such as the drafter's windows of pull request 40898.
    severity = WARNING if asked.from_source else ERROR
    if asked.lacks(engines.DFLASH):
        yield case.say("architectures", "no stable vLLM before 0.20 has DFlash", str(asked), severity)
    if asked.lacks(engines.SHIFTED_IDS) and not case.form.shift:
        why = "before about 0.22 vLLM takes the layers one before these (it lacks #40727): fewer tokens are accepted"
        yield case.say("target_layer_ids", why, str(asked), WARNING)
    yield from _windows(case, severity)
    if case.is_dflash2 and (asked.lacks(engines.DFLASH2) or asked.runner == "v1"):
        why = "a DFlash2 drafter needs vLLM 0.28 and its V2 model runner (VLLM_USE_V2_MODEL_RUNNER=1)"
        yield case.say("architectures", why, str(asked), severity)
    if case.form is formats.SPECULATORS and asked.numbers[:2] == (0, 25) and asked.runner != "v1":
        why = "0.25 may accept none of a speculators drafter's tokens on the V2 model runner"
        yield case.say("target_layer_ids", why, str(asked), WARNING)
    if case.has("quantization_config") or case.weights.quantised:
        why = "up to 0.29 vLLM can't load a drafter with quantised weights (#51581)"
        old = asked.lacks(engines.QUANTISED)
        if old or not asked.numbers:
            yield case.say("quantization_config", why, str(asked), severity if old else NOTE)


def _windows(case: Case, severity: str) -> Iterator[Finding]:
    asked, resolved = case.engine, windows(case.config, case.form, case.effective)
    if all(size is None for size in resolved):
        return
    if asked.lacks(engines.WINDOWS):
        why = "before 0.25 vLLM ignores a drafter's window: every layer is full attention"
        yield case.say("layer_types", why, str(asked), severity)
    elif None not in resolved:
        return
    elif asked.lacks(engines.MIXED_LAYERS):
        why = "0.25 refuses sliding and full layers in one drafter; use 0.26 with VLLM_USE_V2_MODEL_RUNNER=1"
        yield case.say("layer_types", why, str(asked), severity)
    elif asked.runner == "v1":
        why = "the V1 model runner refuses sliding and full layers in one drafter; set VLLM_USE_V2_MODEL_RUNNER=1"
        yield case.say("layer_types", why, str(asked))
    elif not asked.runner and (not asked.numbers or asked.lacks(engines.CHOOSES_V2)):
        why = (
            "sliding and full layers in one drafter need vLLM 0.26 and its V2 model runner (VLLM_USE_V2_MODEL_RUNNER=1)"
        )
        yield case.say("layer_types", why, str(asked), NOTE)

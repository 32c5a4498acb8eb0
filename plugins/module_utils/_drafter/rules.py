# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All the rules. A rule looks at a case and says what is wrong with it; it never guesses a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import (
    rules_engine,
    rules_layers,
    rules_mask,
    rules_sizes,
    rules_window,
)
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import Case, Finding

RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    rules_mask.mask_token,
    rules_layers.target_layer_ids,
    rules_window.refused,
    rules_window.truths,
    rules_window.window,
    rules_window.rope,
    rules_layers.block_size,
    rules_layers.contradictions,
    rules_sizes.complete,
    rules_sizes.proven,
    rules_sizes.bias,
    rules_sizes.positive,
    rules_sizes.width,
    rules_sizes.pairing,
    rules_sizes.draft_vocabulary,
    rules_sizes.architecture,
    rules_sizes.dflash2,
    rules_engine.engine,
)


def examine(case: Case) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(case)]

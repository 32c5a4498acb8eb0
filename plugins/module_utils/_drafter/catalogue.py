# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published drafters and their right values. Data: an entry is added by adding it.

A name is not a version, since publishers retrain in place: an entry counts only where the weights agree with it. Only one of
high confidence mends by itself, the others are hints.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import Format
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import Path
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Weights

HIGH, MEDIUM = "high", "medium"
ZLAB, DFLASH2, SPECULATORS, ANY = "zlab", "dflash2", "speculators", ""
_SHAPE = 5  # so many sizes in common tell a drafter of another family apart
_S, _F = "sliding_attention", "full_attention"


@dataclasses.dataclass(frozen=True)
class Entry:
    """names: the repositories that publish it. family: its format, roughly. source: who says so.

    facts: in canonical terms (see formats). plain: what is no fact, by path.
    """

    names: tuple[str, ...]
    family: str
    confidence: str
    source: str
    facts: Mapping[str, Any]
    plain: Mapping[Path, Any] = dataclasses.field(default_factory=dict)

    def goes_by(self, name: str) -> bool:
        names = {n.lower() for n in self.names}
        return name.lower() in names | {n.rpartition("/")[2] for n in names}

    def fits(self, form: Format, weights: Weights, at_least: int = 0) -> bool:
        """Whether a drafter may be this one: no shape says otherwise, and so many say so."""
        family = SPECULATORS if form.shift else DFLASH2 if weights.convolves else ZLAB
        fc, ids = weights.shape("fc.weight", 2), self.facts.get("target_layer_ids")
        width = self.facts.get("target_hidden_size", self.facts.get("hidden_size"))
        if self.family not in (family, ANY) or (fc and ids and width and fc[1] != len(ids) * width):
            return False
        common = [fact for fact in self.facts if fact in weights.proofs]
        return len(common) >= at_least and all(weights.proofs[f].value == self.facts[f] for f in common)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        ("z-lab/Qwen3.6-27B-DFlash",),
        ZLAB,
        HIGH,
        "config in three independent public test fixtures, and logs of its GGUF conversion",
        {
            "block_size": 16,
            "head_dim": 128,
            "hidden_size": 5120,
            "intermediate_size": 17408,
            "layer_types": [_S, _S, _S, _S, _F],
            "mask_token_id": 248070,
            "num_attention_heads": 32,
            "num_hidden_layers": 5,
            "num_key_value_heads": 8,
            "num_target_layers": 64,
            "rope_theta": 10000000,
            "sliding_window": 2048,
            "target_layer_ids": [1, 16, 31, 46, 61],
            "vocab_size": 248320,
        },
    ),
    Entry(
        ("z-lab/Qwen3.6-35B-A3B-DFlash", "z-lab/Qwen3.5-35B-A3B-DFlash"),
        ZLAB,
        HIGH,
        "public test fixtures (the Qwen3.5 drafter since its retrain of June 2026)",
        {
            "block_size": 16,
            "head_dim": 128,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "layer_types": [_S, _S, _S, _S, _S, _F],
            "mask_token_id": 248077,
            "num_attention_heads": 32,
            "num_hidden_layers": 6,
            "num_key_value_heads": 8,
            "rope_theta": 10000000,
            "sliding_window": 4096,
            "target_layer_ids": [1, 6, 11, 16, 22, 27, 32, 37],
            "vocab_size": 248320,
        },
    ),
    Entry(
        ("z-lab/Qwen3.5-35B-A3B-DFlash",),
        ZLAB,
        MEDIUM,
        "one public test fixture of the first release, until about May 2026",
        {
            "block_size": 16,
            "hidden_size": 2048,
            "layer_types": [_F] * 8,
            "mask_token_id": 248070,
            "num_hidden_layers": 8,
            "num_key_value_heads": 4,
            "target_layer_ids": [1, 10, 19, 28, 37],
        },
    ),
    Entry(
        ("z-lab/Qwen3.5-122B-A10B-DFlash",),
        ZLAB,
        HIGH,
        "a public issue and a test fixture of revision 2274357, the retrain of 2026-06-19",
        {
            "block_size": 16,
            "layer_types": [_S, _S, _S, _S, _S, _F],
            "mask_token_id": 248077,
            "num_hidden_layers": 6,
            "num_target_layers": 48,
            "sliding_window": 4096,
            "target_layer_ids": [1, 7, 14, 20, 26, 32, 39, 45],
        },
    ),
    Entry(
        ("z-lab/Qwen3.5-122B-A10B-DFlash",),
        ZLAB,
        MEDIUM,
        "a public issue about revision 6c7242c of April 2026",
        {"block_size": 16, "mask_token_id": 248077, "num_hidden_layers": 4, "sliding_window": 2048},
    ),
    Entry(
        ("z-lab/Qwen3.5-397B-A17B-DFlash",),
        ZLAB,
        MEDIUM,
        "one public test fixture that claims the published shape",
        {
            "block_size": 16,
            "hidden_size": 4096,
            "mask_token_id": 248077,
            "num_hidden_layers": 6,
            "num_target_layers": 60,
            "target_layer_ids": [1, 9, 17, 25, 33, 41, 49, 57],
            "vocab_size": 248320,
        },
    ),
    Entry(
        ("z-lab/Qwen3.5-4B-DFlash", "z-lab/Qwen3.5-9B-DFlash"),
        ZLAB,
        MEDIUM,
        "public issues and the engine's own documentation",
        {"block_size": 16, "mask_token_id": 248070, "num_target_layers": 32, "target_layer_ids": [1, 8, 15, 22, 29]},
    ),
    Entry(
        ("z-lab/Qwen3.5-27B-DFlash",),
        ZLAB,
        MEDIUM,
        "ids by the formula for 64 layers, layer types from a public pull request, mask token of the family",
        {
            "layer_types": [_F] * 5,
            "mask_token_id": 248070,
            "num_hidden_layers": 5,
            "num_target_layers": 64,
            "target_layer_ids": [1, 16, 31, 46, 61],
        },
    ),
    Entry(
        ("z-lab/Qwen3-8B-DFlash-b16",),
        ZLAB,
        HIGH,
        "public test fixtures",
        {
            "block_size": 16,
            "head_dim": 128,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "layer_types": [_F] * 5,
            "mask_token_id": 151669,
            "num_attention_heads": 32,
            "num_hidden_layers": 5,
            "num_key_value_heads": 8,
            "num_target_layers": 36,
            "target_layer_ids": [1, 9, 17, 25, 33],
            "vocab_size": 151936,
        },
    ),
    Entry(
        ("z-lab/Qwen3-4B-DFlash-b16",),
        ZLAB,
        HIGH,
        "public test fixtures",
        {
            "block_size": 16,
            "head_dim": 128,
            "hidden_size": 2560,
            "layer_types": [_F] * 5,
            "mask_token_id": 151669,
            "num_attention_heads": 32,
            "num_hidden_layers": 5,
            "num_key_value_heads": 8,
            "num_target_layers": 36,
            "target_layer_ids": [1, 9, 17, 25, 33],
            "vocab_size": 151936,
        },
    ),
    Entry(
        ("z-lab/gpt-oss-20b-DFlash",),
        ZLAB,
        HIGH,
        "public test fixture of revision d53f655",
        {
            "block_size": 8,
            "hidden_size": 2880,
            "mask_token_id": 200000,
            "num_hidden_layers": 8,
            "num_target_layers": 24,
            "target_layer_ids": [1, 6, 11, 16, 21],
        },
    ),
    Entry(
        ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat",),
        ZLAB,
        MEDIUM,
        "the publisher's example",
        {"block_size": 10, "mask_token_id": 128002, "num_target_layers": 32},
    ),
    Entry(
        ("z-lab/Qwen3.8-27B-DFlash2", "incoai/Qwen3.8-27B-DFlash2"),
        DFLASH2,
        HIGH,
        "four public test fixtures of revision 50307d4",
        {
            "block_size": 8,
            "conv_group_size": 16,
            "conv_kernel_size": 2,
            "head_dim": 128,
            "hidden_size": 5120,
            "intermediate_size": 17408,
            "is_causal": False,
            "layer_types": [_S] * 5,
            "mask_token_id": 248070,
            "max_window_layers": 5,
            "num_attention_heads": 32,
            "num_hidden_layers": 5,
            "num_key_value_heads": 8,
            "num_target_layers": 64,
            "rope_theta": 10000000,
            "selector_rank": 256,
            "selector_top_k": 16,
            "sliding_window": 2048,
            "target_layer_ids": [5, 19, 33, 47, 61],
            "use_sliding_window": True,
            "vocab_size": 248320,
        },
    ),
    Entry(
        ("RedHatAI/Qwen3-8B-speculator.dflash",),
        SPECULATORS,
        HIGH,
        "its published config",
        {
            "block_size": 8,
            "draft_vocab_size": 32000,
            "hidden_size": 4096,
            "layer_types": [_F] * 5,
            "mask_token_id": 151669,
            "num_hidden_layers": 5,
            "num_speculative_tokens": 7,
            "target_layer_ids": [1, 9, 17, 25, 33],
        },
    ),
    Entry(
        ("RedHatAI/Qwen3-30B-A3B-speculator.dflash",),
        SPECULATORS,
        MEDIUM,
        "its model card",
        {
            "block_size": 8,
            "draft_vocab_size": 32000,
            "hidden_size": 2048,
            "layer_types": [_S] * 5,
            "mask_token_id": 151669,
            "num_hidden_layers": 5,
            "sliding_window": 2048,
            "target_layer_ids": [0, 11, 22, 33, 44],
        },
    ),
    Entry(
        ("RedHatAI/DeepSeek-V4-Flash-speculator.dflash",),
        SPECULATORS,
        HIGH,
        "its model card",
        {
            "block_size": 8,
            "draft_vocab_size": 32000,
            "layer_types": [_S] * 5,
            "num_hidden_layers": 5,
            "sliding_window": 2048,
            "target_hidden_size": 16384,
            "target_layer_ids": [2, 12, 22, 31, 41],
        },
    ),
)


def named(entries: tuple[Entry, ...], profile: str, form: Format, weights: Weights) -> Entry:
    """The entry that the user names, by the whole name of a repository or by its last part."""
    candidates = [entry for entry in entries if entry.goes_by(profile)]
    if not candidates:
        known = sorted({name for entry in entries for name in entry.names})
        near = difflib.get_close_matches(profile, known, n=1, cutoff=0.5)
        hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(known)}"
        raise RefusedError(f"profile: no drafter of the catalogue goes by {profile}; {hint}")
    return next((entry for entry in candidates if entry.fits(form, weights)), candidates[0])


def known_as(entries: tuple[Entry, ...], names: tuple[str, ...]) -> list[Entry]:
    """The entries that go by one of a drafter's own names, by the most telling name first."""
    return next(filter(None, ([entry for entry in entries if entry.goes_by(name)] for name in names)), [])


def shaped_like(entries: tuple[Entry, ...], form: Format, weights: Weights) -> Entry | None:
    """The entry of high confidence that a nameless drafter may be, by its weights."""
    high = (entry for entry in entries if entry.confidence == HIGH)
    return next((entry for entry in high if entry.fits(form, weights, at_least=_SHAPE)), None)

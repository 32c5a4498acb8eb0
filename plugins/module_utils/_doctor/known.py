# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of versions of vLLM that does harm to a server with certain features. A new entry is five lines, and one in its test."""

from __future__ import annotations

import dataclasses

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING

Numbers = tuple[int, int]
ANY: Numbers = (0, 0)
NONE: Numbers = (999, 0)


@dataclasses.dataclass(frozen=True)
class Fault:
    """first and before: it is in these versions, first included. when: the features that a server must have, see features.py."""

    id: str
    first: Numbers
    before: Numbers
    when: tuple[str, ...]
    severity: str
    symptom: str
    remedy: str
    source: str

    @property
    def of_any_version(self) -> bool:
        return (self.first, self.before) == (ANY, NONE)


def _known(
    id: str, first: Numbers, before: Numbers, when: str, severity: str, symptom: str, remedy: str, source: str
) -> Fault:
    return Fault(id, first, before, tuple(when.split()), severity, symptom, remedy, source)


FAULTS = (
    # What costs acceptance, or the server, by its version.
    _known(
        "kv-layout", (0, 22), (0, 23), "dflash", WARNING,
        "It reads the KV cache of some drafters in the wrong layout: acceptance is 0, and the text is right.",
        "Take vLLM 0.23 or later.", "vllm-project/vllm#45343",
    ),
    _known(
        "fp8-kv", (0, 20), (0, 22), "dflash fp8-kv", ERROR,
        "It has no attention for a drafter of this kind with a KV cache in fp8.",
        "Leave --kv-cache-dtype out, or take a later vLLM with the FlashInfer backend.", "vllm-project/vllm#41559",
    ),
    _known(
        "flashinfer", (0, 20), (0, 22), "dflash flashinfer", ERROR,
        "Its FlashInfer backend has only causal attention, and a DFlash drafter needs the other kind.",
        "Give it --attention-backend flash_attn, or take vLLM 0.22 or later.", "vllm-project/vllm#43081",
    ),
    _known(
        "lm-head", (0, 25), (0, 26), "dflash wrapped-target runner-v2", WARNING,
        "On its V2 model runner the drafter gets no lm_head from a multimodal target: acceptance is 0, and the text is right.",
        "Set VLLM_USE_V2_MODEL_RUNNER=0, or take vLLM 0.26 or later.", "vllm-project/vllm#49559",
    ),
    _known(
        "acceptance-0.28", (0, 28), (0, 29), "dflash", NOTE,
        "Acceptance was seen to fall with it by a sixth against 0.27.",
        "Measure the same with 0.27 or a later version, and take what is best.", "syv-ai/qwen38-27b-rtx3090#73",
    ),
    _known(
        "frozen-fork", (0, 19), (0, 26), "dflash from-source", NOTE,
        "It was built from source before 0.26. The head of pull request 40898, which many took for its windows, was closed and gets no fixes.",
        "Take a release from 0.26 on with VLLM_USE_V2_MODEL_RUNNER=1: it runs the same drafters.", "vllm-project/vllm#40898",
    ),
    # The prefix cache.
    _known(
        "prefix-caching", (0, 20), NONE, "dflash prefix-caching", NOTE,
        "Prompts that share their beginning with earlier ones may be drafted badly, as the drafter lacks what the prefix cache skips.",
        "Measure it (acceptance_probe, phase repeated), and start with --no-enable-prefix-caching if it is so.", "vllm-project/vllm#47930",
    ),
    _known(
        "prefix-hits-early", (0, 28), (0, 32), "dflash2 prefix-caching no-prefix-hits", WARNING,
        "With this drafter the prefix cache is never hit: every prompt is computed whole.",
        "Take vLLM 0.32, which has disable_eagle_block_drop in the speculative config, and measure both.", "z-lab/dflash#165",
    ),
    _known(
        "prefix-hits", (0, 32), NONE, "dflash2 prefix-caching no-prefix-hits", WARNING,
        "With this drafter the prefix cache is never hit: every prompt is computed whole.",
        "Set disable_eagle_block_drop in the speculative config, which is an experiment of vLLM's, and measure both.", "z-lab/dflash#165",
    ),
    _known(
        "prefix-warning", (0, 32), NONE, "dflash keeps-eagle-blocks", NOTE,
        "Its log may warn that prefixes are not used again. With disable_eagle_block_drop that is not so.",
        "Believe the counter vllm:prefix_cache_hits_total instead.", "vllm-project/vllm#55518",
    ),
    # What it was given.
    _known(
        "quantised-target", ANY, NONE, "dflash quantised-target weak", NOTE,
        "The target is quantised, and its drafter was most likely trained for the unquantised one: little was accepted of others like it.",
        "Measure the same drafter with the target as it was trained for.", "z-lab/dflash#52",
    ),
    _known(
        "drafter-unpinned", ANY, NONE, "dflash drafter-unpinned", NOTE,
        "The drafter has no revision. A drafter on the hub was trained anew under its old name, with other sizes.",
        "Name the revision in the speculative config.", "z-lab/dflash#152",
    ),
    _known(
        "hub-at-start", ANY, NONE, "hub-name asks-hub", NOTE,
        "It asks the hub at each start, though it has the model, and doesn't start when the hub refuses.",
        "Set HF_HUB_OFFLINE=1 once the model is there, or name its directory.", "vllm-project/vllm#24541",
    ),
    # How it runs.
    _known(
        "asleep", ANY, NONE, "asleep", WARNING,
        "It sleeps: a request to it hangs or ends it, and /health says 200 all the while.",
        "Wake it (POST /wake_up), or restart it.", "vllm-project/vllm#14311",
    ),
    _known(
        "health-lies", ANY, NONE, "several-hosts", NOTE,
        "When a rank on another host is lost, requests hang, and /health goes on to say 200.",
        "Let whoever watches it ask for a token, with a deadline.", "vllm-project/vllm#39863",
    ),
    _known(
        "ray-address", ANY, NONE, "ray", NOTE,
        "With Ray each node must have the address as VLLM_HOST_IP that Ray knows it by, or no GPU is found there.",
        "Compare VLLM_HOST_IP with what `ray status -v` tells, on every node.", "vllm-project/vllm#29265",
    ),
    # What keeps it.
    _known(
        "exit-code-0", ANY, NONE, "unit-restarts-on-failure", WARNING,
        "The server of a dead engine ends with exit code 0, so this unit does not start it again.",
        "Write Restart=always into the unit.", "measured with 0.32",
    ),
    _known(
        "notify", ANY, NONE, "unit-waits-for-notify", ERROR,
        "vLLM never tells systemd that it is ready, so this unit is ended when its start times out.",
        "Write Type=exec into the unit.", "vllm-project/vllm#57637",
    ),
    _known(
        "orphans", ANY, NONE, "unit-spares-children", WARNING,
        "A killed API server leaves its engine and workers on the GPUs, and this unit's KillMode lets them live.",
        "Write KillMode=control-group into the unit.", "vllm-project/vllm#55510",
    ),
)  # fmt: skip
"""What the drafter's own rules tell, by the same versions, is not told here once more."""


def that_apply(version: Numbers | None, features: set[str]) -> list[Fault]:
    """The faults of a version, (0, 32), with these features. Where the version isn't known only those of all versions."""
    return [
        fault
        for fault in FAULTS
        if set(fault.when) <= features
        and (fault.of_any_version or (version is not None and fault.first <= version < fault.before))
    ]

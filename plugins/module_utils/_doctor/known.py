# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of versions of vLLM that does harm to a server with certain features. A new entry is five lines; see the test."""

from __future__ import annotations

import dataclasses

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING

Numbers = tuple[int, int]
ANY: Numbers = (0, 0)
NONE: Numbers = (999, 0)


@dataclasses.dataclass(frozen=True)
class Fault:
    """first and before: it is in these versions, first included. when: the features that a server must have, see Subject.features."""

    id: str
    first: Numbers
    before: Numbers
    when: tuple[str, ...]
    severity: str
    symptom: str
    remedy: str
    source: str


def _known(
    id: str, first: Numbers, before: Numbers, when: str, severity: str, symptom: str, remedy: str, source: str
) -> Fault:
    return Fault(id, first, before, tuple(when.split()), severity, symptom, remedy, source)


FAULTS = (
    _known(
        "kv-layout", (0, 22), (0, 23), "dflash", WARNING,
        "It reads the KV cache of some drafters in the wrong layout: acceptance is 0, and the text is right.",
        "Take vLLM 0.23 or later.", "vllm-project/vllm#45343",
    ),
    _known(
        "fp8-kv", (0, 20), (0, 22), "dflash fp8-kv", ERROR,
        "It has no attention for a drafter of this kind with a KV cache in fp8.",
        "Leave --kv-cache-dtype out, or take a later vLLM with the FlashInfer backend.", "vllm-project/vllm#43081",
    ),
    _known(
        "prefix-caching", (0, 20), NONE, "dflash prefix-caching", NOTE,
        "Prompts that share their beginning with earlier ones may be drafted badly, as the drafter lacks what the prefix cache skips.",
        "Measure it (acceptance_probe, phase repeated), and start with --no-enable-prefix-caching if it is so.", "vllm-project/vllm#47930",
    ),
    _known(
        "acceptance-0.28", (0, 28), (0, 29), "dflash", NOTE,
        "Acceptance was seen to fall with it by a sixth against 0.27.",
        "Measure the same with 0.27 or a later version, and take what is best.", "measured by its users",
    ),
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
        and (
            (fault.first, fault.before) == (ANY, NONE)
            or (version is not None and fault.first <= version < fault.before)
        )
    ]

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host decides how a build is made, and the choices that follow from it."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil

GIB = 1 << 30
# What one compiler takes at its worst: the kernels' templates are large, and nvcc works on several architectures at once.
MEMORY_PER_JOB = {"cpu": 4 * GIB}
MEMORY_PER_CUDA_JOB = 6 * GIB
# Upstream publishes wheels for these.
PRECOMPILED = ("x86_64", "aarch64")


@dataclasses.dataclass(frozen=True)
class Machine:
    architecture: str
    cores: int
    memory: int
    """Bytes that a build may use."""
    ccache: bool


def look() -> Machine:
    return Machine(
        platform.machine(),
        len(os.sched_getaffinity(0)),
        memory(_read("/proc/meminfo"), _read("/sys/fs/cgroup/memory.max")),
        shutil.which("ccache") is not None or shutil.which("sccache") is not None,
    )


def memory(meminfo: str, limit: str) -> int:
    """Bytes that are available, or fewer where the control group has a limit."""
    told = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    available = int(told[1]) * 1024 if told else 4 * GIB
    return min(available, int(limit)) if limit.strip().isdigit() else available


def jobs(machine: Machine, device: str) -> int:
    """How many compilers at a time: as many as there are cores, if the memory is enough for them."""
    each = MEMORY_PER_JOB.get(device, MEMORY_PER_CUDA_JOB)
    return max(1, min(machine.cores, machine.memory // each))


def kernels(machine: Machine, wanted: str, wheel: str) -> tuple[str, str]:
    """precompiled or compile, and why it isn't what was wanted."""
    if wanted == "precompiled" and not wheel and machine.architecture not in PRECOMPILED:
        return "compile", f"There are no precompiled kernels for {machine.architecture}, so they are compiled."
    return wanted, ""


def unfit(machine: Machine, wheel: str) -> str:
    """What speaks against a wheel's file name on this machine; empty if nothing does."""
    tag = re.search(r"-([^-/]+)\.whl(?:[?#].*)?$", wheel)
    if not tag or tag[1] == "any" or tag[1].endswith(machine.architecture):
        return ""
    return f"the wheel {os.path.basename(wheel)} is not for {machine.architecture}"


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as f:
            return f.read()
    except OSError:
        return ""

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of this host and who uses them, as nvidia-smi tells it. That there are none is a fact like any other."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
from collections.abc import Iterable

from ansible_collections.llmops.vllm.plugins.module_utils._host import programs

TOOL = "nvidia-smi"
PATIENCE = 20.0
"""Seconds; a driver in trouble lets it hang."""
GPU_FIELDS = ("index", "uuid", "memory.total", "memory.used", "memory.free", "driver_version", "name")
PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")


class NoAnswerError(Exception):
    """nvidia-smi is there and tells nothing; says why."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A process with a context on a GPU. memory_used: MiB, None where the driver does not tell."""

    pid: int
    name: str
    memory_used: int | None


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One device; its memory in MiB, None where the driver does not tell. mig: its MIG devices, by UUID."""

    index: int
    uuid: str
    name: str
    driver: str
    memory_total: int | None
    memory_used: int | None
    memory_free: int | None
    mig: list[str]
    processes: list[Process]


def ask(tool: str = TOOL) -> list[Gpu]:
    """All GPUs; none if there is no nvidia-smi."""
    try:
        gpus = _run(tool, f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits")
    except FileNotFoundError:
        return []
    processes = _run(tool, f"--query-compute-apps={','.join(PROCESS_FIELDS)}", "--format=csv,noheader,nounits")
    return parse(gpus, processes, _run(tool, "-L"))


def count(tool: str = TOOL) -> int | None:
    """How many devices a server finds. None where that can't be told: no nvidia-smi, no answer, or GPUs cut up in MIG devices."""
    try:
        listed = _run(tool, "-L")
    except (FileNotFoundError, NoAnswerError):
        return None
    return None if _mig(listed) else sum(line.startswith("GPU ") for line in listed.splitlines())


def parse(gpus: str, processes: str, listed: str) -> list[Gpu]:
    """What the three calls of `ask` answered, put together."""
    found: dict[str, list[Process]] = {}
    for uuid, pid, used, name in _rows(processes, len(PROCESS_FIELDS)):
        if pid.isdigit():
            found.setdefault(uuid, []).append(Process(int(pid), name, _mib(used)))
    mig = _mig(listed)
    return [
        Gpu(int(index), uuid, name, driver, _mib(total), _mib(used), _mib(free), mig.get(uuid, []), found.get(uuid, []))
        for index, uuid, total, used, free, driver, name in _rows(gpus, len(GPU_FIELDS))
        if index.isdigit()
    ]


def seen(gpus: Iterable[Gpu], devices: str | None) -> list[Gpu]:
    """Those that a server sees which is given this CUDA_VISIBLE_DEVICES: indexes or UUIDs, whole or their beginnings; None shows all.

    As for the server, what comes after a name that no device has is not seen.
    """
    found, every = [], list(gpus)
    if devices is None:
        return every
    for name in map(str.strip, devices.split(",")):
        chosen = [
            gpu
            for gpu in every
            if name and (name == str(gpu.index) or any(uuid.startswith(name) for uuid in (gpu.uuid, *gpu.mig)))
        ]
        if not chosen:
            break
        found += [gpu for gpu in chosen if gpu not in found]
    return found


def in_the_way(gpus: Iterable[Gpu], ours: Iterable[int], allowed: int) -> list[str]:
    """What uses the GPUs besides our own processes, in words: foreign processes, and more memory than is allowed to nobody."""
    own, words = set(ours), []
    for gpu in gpus:
        strangers = [process for process in gpu.processes if process.pid not in own]
        words += [
            f"GPU {gpu.index}: pid {p.pid} ({p.name})" + (f" uses {p.memory_used} MiB" if p.memory_used else "")
            for p in strangers
        ]
        used_by_us = [process.memory_used for process in gpu.processes if process.pid in own]
        if strangers or gpu.memory_used is None or None in used_by_us:
            continue
        rest = gpu.memory_used - sum(used or 0 for used in used_by_us)
        if rest > allowed:
            words.append(f"GPU {gpu.index}: {rest} MiB are used by processes that can't be seen from here")
    return words


def _run(tool: str, *words: str) -> str:
    # Where a directory of PATH may not be looked into, starting it would fail for want of permission, be it there or not.
    if not shutil.which(tool):
        raise FileNotFoundError(tool)
    with programs.Program(
        [tool, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            told, _unused = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            # Inside a call of the driver even KILL has to wait, and we don't.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            process.returncode = process.returncode or -9
            raise NoAnswerError(f"{tool} {words[0]} gave no answer within {PATIENCE:g} s: the driver hangs.") from None
    if "No devices were found" in told:
        return ""
    if process.returncode:
        raise NoAnswerError(f"{tool} {words[0]} ended with {process.returncode}: {' '.join(told.split())}")
    return told


def _rows(text: str, width: int) -> list[list[str]]:
    """The last field is a name, which may hold commas."""
    rows = [[field.strip() for field in line.split(",", width - 1)] for line in text.splitlines() if line.strip()]
    return [row for row in rows if len(row) == width]


def _mib(text: str) -> int | None:
    """A number of MiB; None for [N/A], [Insufficient Permissions] and the like."""
    return int(text) if text.isdigit() else None


def _mig(listed: str) -> dict[str, list[str]]:
    """The MIG devices of each GPU, from `nvidia-smi -L`, which lists them indented below it."""
    found: dict[str, list[str]] = {}
    gpu = ""
    for line in listed.splitlines():
        uuid = line.rpartition("(UUID: ")[2].rstrip(") ")
        if line.startswith("GPU "):
            gpu = uuid
        elif line.lstrip().startswith("MIG ") and gpu:
            found.setdefault(gpu, []).append(uuid)
    return found

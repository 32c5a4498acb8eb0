# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What servers leave behind when they die: engines without a server, and shared memory of nobody."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterable

from ansible_collections.llmops.vllm.plugins.module_utils._host import gpus, ports, processes
from ansible_collections.llmops.vllm.plugins.module_utils._host.systemd import LAUNCH

ENGINE = "VLLM::"
"""So the names begin that vLLM gives its engines and workers."""
SHARED_MEMORY = "/dev/shm"
SHOWN = 3  # segments of an owner that are named
SEGMENTS = ("psm_", "sem.mp-", "vllm_", "nccl-")
"""So the names begin of what vLLM, Python's multiprocessing and NCCL make there."""


def of(instance: str) -> list[int]:
    """Living processes that belong to an instance, whoever their parents are now.

    Known by the launch script that started them or, since engines write over their environment, by their session's leader or by the
    log that they write to.
    """
    under = os.path.join(os.path.realpath(instance), "")
    living = processes.living()
    launched = {pid for pid in living if _launch(pid).startswith(under)}
    return [
        pid for pid in living if pid in launched or processes.session(pid) in launched or _output(pid).startswith(under)
    ]


def strangers(port: int | None, ours: Iterable[int] = (), tool: str = gpus.TOOL) -> list[str]:
    """What serves, or may, and was started by no launch script of this collection, in words.

    Engines and workers by vLLM's names for them, who listens on the port, and who uses the GPUs as far as nvidia-smi tells.
    """
    living = set(processes.living())
    launched = {processes.session(pid) for pid in living if _launch(pid)}
    told: dict[int, list[str]] = {pid: [] for pid in living if processes.name(pid).startswith(ENGINE)}
    for pid in ports.listeners(port) if port else []:
        told.setdefault(pid, []).append(f"listens on port {port}")
    with contextlib.suppress(gpus.NoAnswerError):
        for gpu in gpus.ask(tool):
            for process in gpu.processes:
                told.setdefault(process.pid, []).append(f"uses GPU {gpu.index}")
    return [
        ", ".join(
            [
                f"pid {pid} ({processes.name(pid)}), of {user(pid)}"
                if pid in living
                else f"pid {pid} of another container",
                *what,
            ]
        )
        for pid, what in sorted(told.items())
        if pid not in ours and not (pid in living and processes.session(pid) in launched)
    ]


def _launch(pid: int) -> str:
    return processes.variable(pid, LAUNCH) or ""


def _output(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/1")
    except OSError:
        return ""


def segments(directory: str = SHARED_MEMORY) -> list[str]:
    """Shared memory that no process has mapped or open, in a line for each owner: how much, and where.

    Says nothing unless it may look into all processes, since whom it can't ask may still use it.
    """
    try:
        found = [entry for entry in os.scandir(directory) if entry.name.startswith(SEGMENTS)]
    except OSError:
        return []
    if not found or os.geteuid() != 0:
        return []
    used = {name for pid in processes.living() for name in _mapped(pid, directory)}
    left: dict[str, list[tuple[int, str]]] = {}
    for entry in found:
        with contextlib.suppress(FileNotFoundError):
            if entry.name not in used:
                about = entry.stat()
                left.setdefault(_user(about.st_uid), []).append((about.st_size, entry.name))
    return [_heap(directory, owner, sorted(ones, reverse=True)) for owner, ones in sorted(left.items())]


def _heap(directory: str, owner: str, ones: list[tuple[int, str]]) -> str:
    named = ", ".join(name for _size, name in ones[:SHOWN])
    more = f" and {len(ones) - SHOWN} more" if len(ones) > SHOWN else ""
    return f"shared memory of {owner} in {directory}, {sum(size for size, _name in ones) / 2**20:.0f} MiB that nobody uses: {named}{more}"


def user(pid: int) -> str:
    """Whose process it is."""
    try:
        return _user(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "nobody, for it is gone"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _mapped(pid: int, directory: str) -> set[str]:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
            return {line.rstrip("\n").rpartition("/")[2] for line in f if f" {directory}/" in line}
    except OSError:
        return set()

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking with a process's own eyes: at its files and its network, wherever it is contained."""

from __future__ import annotations

import codecs
import ctypes
import json
import os
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import origin
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

NETWORK = 0x40000000  # CLONE_NEWNET, see setns(2)

# Under another root Python finds none of its own files any more, and these it would only look for when they are needed.
for codec in ("ascii", "utf-8", "latin-1", "idna"):
    codecs.lookup(codec)


def contained(pid: int) -> bool:
    """Whether a process sees other files or another network than we do.

    A unit of systemd has mounts of its own as soon as it is hardened, under the same root. Who may not ask about another's process is told
    by its control group whether it is in a container, and does without the rest.
    """
    try:
        if _root(pid) != _root(os.getpid()) or not _same(pid, "net"):
            return True
        return os.geteuid() == 0 and not _same(pid, "mnt")
    except PermissionError:
        return bool(origin.container(processes.control_group(pid)))


def within(pid: int, look: Callable[[], Any]) -> Any:
    """What a function returns when it is called where the process is, as JSON carries it.

    It runs in a child of ours that has entered the process's network and root. Needs root where that is another than our own; raises
    PermissionError without. Raises RuntimeError with what the function raised.
    """
    if not contained(pid):
        return look()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _enter(pid)
            said = {"value": look()}
        except PermissionError as e:
            said = {"refused": str(e)}
        except Exception as e:
            said = {"error": f"{type(e).__name__}: {e}"}
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as f:
                json.dump(said, f)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as f:
        told = f.read()
    os.waitpid(child, 0)
    answer = json.loads(told or '{"error": "it ended without a word"}')
    if "refused" in answer:
        raise PermissionError(answer["refused"])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def _enter(pid: int) -> None:
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    if not _same(pid, "net"):
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(network, NETWORK):
            code = ctypes.get_errno()
            raise PermissionError(code, f"the network of pid {pid} can't be entered: {os.strerror(code)}")
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")


def _root(pid: int) -> tuple[int, int]:
    about = os.stat(f"/proc/{pid}/root")
    return about.st_dev, about.st_ino


def _same(pid: int, kind: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")

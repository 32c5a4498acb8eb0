# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking with a process's own eyes: at its files, or at its network, wherever it is contained.

Never at both at once: who looks names up under another's root loads the libraries that lie there, and runs them.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import select
import signal
import time
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import origin
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

NETWORK = 0x40000000  # CLONE_NEWNET, see setns(2)
PATIENCE = 120.0  # seconds in which a look has to end, whatever the process has put in its way

# Under another root Python finds none of its own files any more, and these it would only look for when they are needed.
for codec in ("ascii", "utf-8", "latin-1", "idna"):
    codecs.lookup(codec)


def other_files(pid: int) -> bool:
    """Whether a process sees other files than we do.

    A unit of systemd has mounts of its own as soon as it is hardened, under the same root. Who may not ask about another's process is told
    by its control group whether it is in a container, and does without the rest.
    """
    try:
        return _root(pid) != _root(os.getpid()) or (os.geteuid() == 0 and not _same(pid, "mnt"))
    except PermissionError:
        return bool(origin.container(processes.control_group(pid)))


def other_network(pid: int) -> bool:
    """Whether a process sees another network than we do; likewise."""
    try:
        return not _same(pid, "net")
    except PermissionError:
        return bool(origin.container(processes.control_group(pid)))


def at_files(pid: int, look: Callable[[], Any]) -> Any:
    """What a function returns that is called where the process's files are, as JSON carries it. It must look no name up.

    Needs root where these are other than our own; raises PermissionError without. Raises RuntimeError with what the function raised, and
    for one that doesn't end.
    """
    return _in_child(look, (lambda: _enter_root(pid)) if other_files(pid) else None)


def at_network(pid: int, look: Callable[[], Any], patience: float | None = None) -> Any:
    """The same in the process's network, with our own files. patience: seconds in which it has to end."""
    return _in_child(look, (lambda: _enter_network(pid)) if other_network(pid) else None, patience)


def _in_child(look: Callable[[], Any], enter: Callable[[], None] | None, patience: float | None = None) -> Any:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            if enter:
                enter()
            said = {"value": look()}
        except PermissionError as e:
            said = {"refused": str(e)}
        except BaseException as e:
            said = {"error": f"{type(e).__name__}: {e}"}
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as f:
                json.dump(said, f)
        finally:
            os._exit(0)
    os.close(writing)
    patience = PATIENCE if patience is None else patience
    told = _heard(reading, patience)
    if told is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if told is None:
        raise RuntimeError(f"it did not end within {patience:g} s")
    answer = json.loads(told or b'{"error": "it ended without a word"}')
    if "refused" in answer:
        raise PermissionError(answer["refused"])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def _heard(reading: int, patience: float) -> bytes | None:
    """All that comes, None if that doesn't end in time."""
    told, deadline = b"", time.monotonic() + patience
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(deadline - time.monotonic(), 0))[0]:
            data = pipe.read(65536)
            if not data:
                return told
            told += data
    return None


def _enter_root(pid: int) -> None:
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")


def _enter_network(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(network, NETWORK):
        code = ctypes.get_errno()
        raise PermissionError(code, f"the network of pid {pid} can't be entered: {os.strerror(code)}")


def _root(pid: int) -> tuple[int, int]:
    about = os.stat(f"/proc/{pid}/root")
    return about.st_dev, about.st_ino


def _same(pid: int, kind: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")

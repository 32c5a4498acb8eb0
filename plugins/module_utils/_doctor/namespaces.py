# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking with a process's own eyes: at its files, or at its network, wherever it is contained.

Never at both at once: who looks names up under another's root loads the libraries that lie there, and runs them.
"""

from __future__ import annotations

import codecs
import ctypes
import errno
import grp
import json
import os
import pwd
import resource
import select
import signal
import sys
import time
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import origin
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

NETWORK = 0x40000000  # CLONE_NEWNET, see setns(2)
PATIENCE = 120.0  # seconds in which a look has to end, whatever the process has put in its way
MEMORY = 4 << 30  # bytes that a look may take, as a file or an answer of a process may have no end
LONGEST = 64 << 20  # bytes that it may tell
FAREWELL = 5.0  # seconds in which a killed look has to be gone; within a hung file system it never is
RUNS = {"import", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "ctypes.dlopen"}
"""What runs what lies in the file system, as Python's audit events have it."""

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
            _limit_memory()
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
    told, hindrance = _heard(reading, patience)
    if hindrance:
        os.kill(child, signal.SIGKILL)
    _bury(child)
    if hindrance:
        raise RuntimeError(hindrance)
    answer = json.loads(told or b'{"error": "it ended without a word"}')
    if "refused" in answer:
        raise PermissionError(answer["refused"])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def _heard(reading: int, patience: float) -> tuple[bytes, str]:
    """All that comes, and why that isn't all."""
    told, deadline = b"", time.monotonic() + patience
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(deadline - time.monotonic(), 0))[0]:
            data = pipe.read(65536)
            if not data:
                return told, ""
            told += data
            if len(told) > LONGEST:
                return b"", f"it has more than {LONGEST >> 20} MiB to tell"
    return b"", f"it did not end within {patience:g} s"


def _bury(child: int) -> None:
    deadline = time.monotonic() + FAREWELL
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)


def _limit_memory() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _enter_root(pid: int) -> None:
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")
    _run_nothing()


def _run_nothing() -> None:
    """From here on this process runs no program, no library and no module: they would be another's, and we may be root."""
    sys.addaudithook(_refuse)
    # Names of users are looked up by libraries of the C library, of which Python hears nothing.
    for database in (pwd, grp):
        for name in dir(database):
            if name.startswith("get"):
                setattr(database, name, _look_up_nobody)


def _refuse(event: str, _arguments: object) -> None:
    if event in RUNS:
        raise OSError(errno.ENOEXEC, f"nothing is run under another's root ({event})")


def _look_up_nobody(*_names: object) -> None:
    raise OSError(errno.ENOEXEC, "no name is looked up under another's root")


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

"""A place that no other run has: a number, which gives names, addresses, a bridge and a directory, held as long as its owner lives.

The lock on the directory is the kernel's, and goes with the process that holds it, however that ends. What a dead owner left is
removed by the next run.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import random
import shutil
import subprocess
import warnings
from ipaddress import IPv4Network
from pathlib import Path

from .machine import do, hierarchies, links, mac, networks, wait_for

HOME = Path("/var/lib/llmops-vllm-fleet")
# For tests between machines (RFC 2544): nobody's addresses.
NETWORKS = list(enumerate(IPv4Network("198.18.0.0/15").subnets(new_prefix=24)))


class Lease:
    def __init__(self) -> None:
        HOME.mkdir(mode=0o700, exist_ok=True)
        one_at_a_time = _lock(HOME, wait=True)
        try:
            _sweep()
            used = networks()
            number, self.network = random.choice([each for each in NETWORKS if not any(map(each[1].overlaps, used))])
            self.name = f"vllm{number}"
            self.home = HOME / self.name
            self.home.mkdir(mode=0o700)
            self._lock = _lock(self.home)
            self.gateway = self.network[254]
            do("ip", "link", "add", self.name, "address", mac(self.gateway), "type", "bridge")
            do("ip", "address", "add", f"{self.gateway}/24", "dev", self.name)
            do("ip", "link", "set", self.name, "up")
        finally:
            os.close(one_at_a_time)

    def cgroups(self, host: str) -> list[Path]:
        """A place of the host's own in each hierarchy, or the systemds of the hosts would meet there."""
        groups = [mount / self.name / host for mount in hierarchies()]
        for group in groups:
            group.mkdir(parents=True, exist_ok=True)
        return groups

    def close(self) -> None:
        _remove(self.name)
        os.close(self._lock)


def _lock(directory: Path, wait: bool = False) -> int:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(handle)
        raise
    return handle


def _sweep() -> None:
    for left in HOME.iterdir():
        try:
            lock = _lock(left)
        except BlockingIOError:
            continue  # its owner lives
        try:
            _remove(left.name)
        except (OSError, RuntimeError) as error:
            warnings.warn(f"{left.name}, left by an earlier run, could not be removed: {error}", stacklevel=2)
        finally:
            os.close(lock)


def _remove(name: str) -> None:
    """All that bears the name. The hosts' processes are gone or going, and took their mounts and namespaces with them."""
    for group in [mount / name for mount in hierarchies()]:
        wait_for(f"{group} empty", functools.partial(_rmdir, group))
    for link in links():
        if link == name or link.startswith(f"{name}-"):
            do("ip", "link", "delete", link, check=False)  # a dying host's may go by itself meanwhile
    for socket in (HOME / name / "cp").glob("*"):
        # Ansible keeps a connection open after it is done.
        subprocess.run(
            ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "host"], stderr=subprocess.DEVNULL, check=False
        )
    shutil.rmtree(HOME / name)


def _rmdir(group: Path) -> bool:
    """A control group can be removed when nothing runs in it."""
    with contextlib.suppress(FileNotFoundError):
        for directory, _unused, _unused in os.walk(group, topdown=False):
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                continue
            except OSError:
                return False
    return True

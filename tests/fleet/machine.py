"""What is asked of the machine that the fleet runs on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, ip_interface
from pathlib import Path


def do(*words: str, check: bool = True) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def links() -> list[str]:
    return [link["ifname"] for link in json.loads(do("ip", "-json", "link"))]


def networks() -> list[IPv4Network]:
    """Those that this machine has an address in."""
    found = (a for link in json.loads(do("ip", "-json", "-4", "address")) for a in link["addr_info"])
    return [IPv4Network(ip_interface(f"{a['local']}/{a['prefixlen']}").network) for a in found]


def mac(address: IPv4Address) -> str:
    """Of whoever has the address, whenever: the others remember it."""
    return f"02:00:{address.packed.hex(':')}"


def hierarchies() -> list[Path]:
    """Where the control groups are mounted that systemd keeps its units in: one, or two on a machine between the versions."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _unused, mount, kind, options = line.split()[:4]
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(mount))
    return found


def wait_for(what: str, holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)

"""The system that every host starts from: a Debian made once by debootstrap, from where this machine gets its own packages."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TOOLS = (
    "apt-get",
    "bash",
    "debootstrap",
    "ip",
    "nsenter",
    "setpriv",
    "ssh",
    "ssh-keygen",
    "systemd-nspawn",
    "unshare",
)
PACKAGES = (
    "ca-certificates",
    "dbus",
    "g++",  # torch compiles a helper as soon as tensor parallelism spans hosts
    "git",
    "iproute2",
    "libnuma1",
    "libpam-systemd",
    "nginx",  # for who routes; it runs nowhere before
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "rsync",
    "sudo",
    "systemd-sysv",
    "tmux",
)
# Identities belong to a host, not to what hosts share.
SETTLE = """
rm -f etc/ssh/ssh_host_* var/lib/dbus/machine-id var/cache/apt/archives/*.deb
rm -f etc/systemd/system/multi-user.target.wants/nginx.service
: > etc/machine-id
"""
STEPS = tuple(
    f"I: {step}"
    for step in (
        "Resolving",
        "Installing core",
        "Unpacking required",
        "Configuring required",
        "Unpacking the",
        "Configuring the",
    )
)


def lacks() -> str:
    """What keeps this machine from having a fleet; nothing if it can."""
    if sys.platform != "linux":
        return f"a fleet needs Linux, and this is {platform.system()}"
    if os.geteuid() != 0:
        return "a fleet needs root, for mounts and network namespaces"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    return f"a fleet needs {', '.join(missing)}, not installed here" if missing else ""


def base(say: Callable[[str], None]) -> Path:
    """The directory of the base system. Made if it isn't there yet, by one process while the others wait."""
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    recipe = json.dumps([suite, platform.machine(), PACKAGES, SETTLE])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llmops-vllm"
    tree = cache / f"fleet-base-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "fleet-base.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            _make(tree, suite, say)
    return tree


def _make(tree: Path, suite: str, say: Callable[[str], None]) -> None:
    aside, log = tree.with_suffix(".part"), tree.with_suffix(".log")
    if aside.exists():
        shutil.rmtree(aside)
    say(f"Making the base system of the fleet, once: {tree}")
    # Mounts and processes of its own, which end with this process however that ends.
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]
    with open(log, "w") as lines:
        making = subprocess.Popen(
            [
                *alone,
                "debootstrap",
                "--variant=minbase",
                f"--include={','.join(PACKAGES)}",
                suite,
                aside,
                _mirror(suite),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert making.stdout
        for line in making.stdout:
            lines.write(line)
            if line.startswith(STEPS):
                say(f"  {line.removeprefix('I: ').rstrip()}")
    if making.wait() != 0:
        raise RuntimeError(f"debootstrap ended with {making.returncode}; see {log}")
    subprocess.run(["sh", "-ec", SETTLE], cwd=aside, check=True)
    aside.rename(tree)


def _mirror(suite: str) -> str:
    """Where apt of this machine gets the suite from."""
    asked = ["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    for line in subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines():
        codename, component, uri = line.split(" ", 2)
        if (codename, component) == (suite, "main"):
            return uri
    raise RuntimeError(f"apt of this machine has no source of {suite} main")

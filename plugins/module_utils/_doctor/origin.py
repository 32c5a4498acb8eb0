# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who started a process and what keeps it: a systemd unit, a container, tmux, nohup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.plugins.module_utils._host.systemd import LAUNCH

CONTAINERS = (
    ("Kubernetes pod", re.compile(r"kubepods.*?pod([0-9a-f_-]{8,})")),
    ("podman container", re.compile(r"libpod-([0-9a-f]{12})")),
    ("docker container", re.compile(r"docker[-/]([0-9a-f]{12})")),
    ("LXC container", re.compile(r"/lxc(?:\.payload)?[./]([^/]+)")),
    ("systemd-nspawn container", re.compile(r"systemd-nspawn@([^/]+)\.service|machine-([^/]+)\.scope")),
)
UNIT = re.compile(r"/([^/]+\.service)(?:/|$)")
LOGINS = re.compile(r"(?:sshd?|cron|getty@.*|user@\d+|tmux.*)\.service$")
TERMINALS = (("tmux", "tmux"), ("screen", "screen"), ("SCREEN", "screen"))


def container(group: str) -> str:
    """The container that a control group belongs to, in words; empty if none is known."""
    for kind, pattern in CONTAINERS:
        match = pattern.search(group)
        if match:
            return f"{kind} {next(filter(None, match.groups()))}"
    return ""


def unit(group: str) -> str:
    """The systemd unit that a control group belongs to; empty for what runs in somebody's login."""
    found = [name for name in UNIT.findall(group) if not LOGINS.match(name)]
    return found[-1] if found else ""


def keeper(pid: int, ancestors: Sequence[int]) -> str:
    """What keeps a process, in words. Without privilege much of it can be read all the same."""
    group = processes.control_group(pid)
    inside = container(group)
    if inside:
        return inside
    service = unit(group)
    if service:
        return f"systemd unit {service}"
    if processes.variable(pid, LAUNCH):
        return "llmops.vllm"
    names = [processes.name(ancestor) for ancestor in ancestors]
    for begin, kind in TERMINALS:
        if any(name.startswith(begin) for name in names):
            return kind
    return "nohup" if ignores_hangup(pid) else "nothing: it was started by hand"


def ignores_hangup(pid: int) -> bool:
    """Whether it goes on when its terminal is closed, as nohup has it."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            mask = next((line.split()[1] for line in f if line.startswith("SigIgn:")), "0")
    except OSError:
        return False
    return bool(int(mask, 16) & 1)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes by identity: a pid counts only together with its start time and the boot it belongs to."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import files


@dataclasses.dataclass(frozen=True)
class PidFile:
    """What the keeper wrote when it started a command.

    start_ticks: field 22 of /proc/PID/stat, clock ticks since boot (proc(5)).
    mark: identity of the log file at the launch: {path, device, inode, offset}.
    """

    pid: int
    start_ticks: int
    boot_id: str
    argv: list[str]
    started_at: str
    log: str
    mark: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Exit:
    """How a kept process ended: an exit code, or the signal that killed it."""

    code: int | None
    signal: int | None
    ended_at: str

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by signal {self.signal} ({signal_name(self.signal)})"
        return f"exit code {self.code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            stat = f.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, so count from the last one.
    fields = stat[stat.rindex(b")") + 2 :].split()
    state, started = fields[0], int(fields[19])
    return None if state in (b"Z", b"X") else started


def uptime(pid: int) -> float | None:
    """Seconds since a living process was started."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def session_members(record: PidFile) -> list[int]:
    """Living processes of the session that the recorded process leads or led, itself included.

    A server's workers stay in its session when it is killed, so they are found after its death. A session of an earlier boot, or one
    that another process has founded since under the same number, is not the recorded one.
    """
    if record.boot_id != boot_id():
        return []
    founder = start_ticks(record.pid)
    if founder is not None and founder != record.start_ticks:
        return []
    return [pid for pid in living() if session(pid) == record.pid]


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # gone meanwhile
        return None


def living() -> list[int]:
    """Pids of all processes that live."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and start_ticks(int(name)) is not None)


def read_pidfile(path: str) -> PidFile | None:
    """The record in a pid file; None if there is none or it can't be understood (a torn or foreign file).

    Only a keeper of root's or our own is believed: where another user may write, a file of theirs could name any process and any log.
    """
    data = files.read_json(path, opener=files.ours)
    try:
        return PidFile(**{f.name: data[f.name] for f in dataclasses.fields(PidFile)})
    except (KeyError, TypeError):
        return None


def alive(record: PidFile) -> bool:
    return record.boot_id == boot_id() and start_ticks(record.pid) == record.start_ticks


def read_exit(pidfile: str, record: PidFile) -> Exit | None:
    """How the recorded process ended, if its keeper lived to see it."""
    data = files.read_json(pidfile + ".exit", opener=files.ours)
    if data.get("pid") != record.pid or data.get("start_ticks") != record.start_ticks:
        return None
    return Exit(data.get("code"), data.get("signal"), str(data.get("ended_at", "")))


def read_log(record: PidFile) -> list[str]:
    """The lines of a recorded log; none if it is gone, or another file, as a link leads to, is in its place."""
    try:
        with open(os.open(record.log, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8", errors="replace") as f:
            state = os.fstat(f.fileno())
            same = (state.st_dev, state.st_ino) == (record.mark.get("device"), record.mark.get("inode"))
            return f.read().splitlines() if same else []
    except OSError:
        return []


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty if it is gone, a kernel thread or not ours to read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            raw = f.read()
    except OSError:
        return []
    return [os.fsdecode(a) for a in raw.rstrip(b"\0").split(b"\0")] if raw else []


def name(pid: int) -> str:
    """The name of a process, which it may choose itself: VLLM::EngineCore. Empty if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            short = f.read().rstrip("\n")
    except OSError:
        return ""
    # The kernel keeps 15 bytes of a name. Who renames itself mostly writes the whole name over its arguments too.
    whole = " ".join(command_line(pid)[:1]).strip()
    return whole if whole.startswith(short) else short


def describe(pid: int) -> str:
    """A process as people know it: pid 7 (vllm serve ...)."""
    return f"pid {pid} ({' '.join(command_line(pid)).strip()[:200] or name(pid) or 'its command is hidden'})"


def variable(pid: int, wanted: str) -> str | None:
    """A variable of the environment that a process was started with; None if it has none, or isn't ours to read.

    vLLM's engines and workers write their names over it. Their server does not.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            entries = f.read().split(b"\0")
    except OSError:
        return None
    start = os.fsencode(wanted) + b"="
    return next((os.fsdecode(entry[len(start) :]) for entry in entries if entry.startswith(start)), None)


def control_group(pid: int) -> str:
    """The control group of a process as systemd names it: /system.slice/ssh.service. Empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as f:
            rows = [row.rstrip("\n").split(":", 2) for row in f]
    except OSError:
        return ""
    # systemd's own hierarchy where version 1 of control groups is mounted, else the only one there is; see cgroups(7).
    groups = {controllers: path for _number, controllers, path in rows}
    return groups.get("name=systemd", groups.get("", ""))

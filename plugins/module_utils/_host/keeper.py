# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts one command, outlives the connection with it, and records how it ended.

Runs on its own, so it imports nothing of the collection. Its code comes by the first line of standard input, the pid file's path as
argument, and then the request on standard input: ``{"argv": [...], "log": "/path/of/a/new/file", "chdir": "/", "user": null}``. It
answers one line of JSON on standard output, the pid file's content or ``{"error": "..."}``, and goes on in the background until the
command has ended.
"""

from __future__ import annotations

import datetime
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from typing import Any


class Command(subprocess.Popen[bytes]):
    """What is kept."""


def main() -> None:
    pidfile = sys.argv[1]
    request = json.load(sys.stdin)
    os.setsid()
    process = None
    try:
        process, record = start(request)
        write(pidfile, record)
    except (OSError, KeyError) as e:
        if process:  # without a pid file nobody would ever find it
            os.killpg(process.pid, signal.SIGKILL)
        answer({"error": f"{type(e).__name__}: {e}"})
        return
    answer(record)
    let_go()
    code = process.wait()
    end = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None, "ended_at": now()}
    write(pidfile + ".exit", {"pid": record["pid"], "start_ticks": record["start_ticks"], **end})


def answer(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def start(request: dict[str, Any]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start the command as the leader of its own session, its output in a log file that did not exist before."""
    credentials: dict[str, Any] = {}
    user = pwd.getpwnam(request["user"]) if request.get("user") else None
    if user and user.pw_uid != os.geteuid():
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        credentials = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
    if credentials:
        os.fchown(log, credentials["user"], credentials["group"])
    identity = os.fstat(log)
    process = Command(
        request["argv"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=request.get("chdir") or "/",
        start_new_session=True,
        **credentials,
    )
    os.close(log)
    with open(f"/proc/{process.pid}/stat", "rb") as f:
        stat = f.read()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    return process, {
        "pid": process.pid,
        "start_ticks": int(stat[stat.rindex(b")") + 2 :].split()[19]),
        "boot_id": boot,
        "argv": request["argv"],
        "started_at": now(),
        "log": request["log"],
        "mark": {"path": request["log"], "device": identity.st_dev, "inode": identity.st_ino, "offset": 0},
    }


def let_go() -> None:
    """Hold nothing of whoever started us, and end only after the command."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir("/")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def write(path: str, data: dict[str, Any]) -> None:
    # By a name that nobody can foresee: the directory may be another user's, and a link that lies there lead elsewhere.
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=os.path.dirname(path)
    )
    with open(descriptor, "w", encoding="utf-8") as f:
        os.fchmod(descriptor, 0o644)
        json.dump(data, f)
    os.replace(temporary, path)


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


if __name__ == "__main__":
    main()

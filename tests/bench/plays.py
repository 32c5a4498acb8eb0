"""Whole runs of ansible-playbook, measured from outside."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# ssh with a line for each time that Ansible calls it.
COUNTING = '#!/bin/sh\necho >> "$0.calls"\nexec ssh "$@"\n'


@dataclasses.dataclass(frozen=True)
class Played:
    """seconds: of the whole process. busy: seconds of a core that it and all that it started on the controller took. megabytes: of
    the largest process. calls: of ssh, each a round trip over an open connection.
    """

    seconds: float
    busy: float
    megabytes: float
    tasks: int
    calls: int
    changed: int
    output: str


def played(start: Callable[[dict[str, str]], subprocess.Popen[str]]) -> Played:
    """start is given variables of the environment. Raises RuntimeError if the play fails, or if what it held in memory can't be told."""
    with tempfile.TemporaryDirectory() as place:
        ssh = Path(place) / "ssh"
        ssh.write_text(COUNTING)
        ssh.chmod(0o755)
        calls = ssh.with_suffix(".calls")
        began = time.monotonic()
        with start({"ANSIBLE_SSH_EXECUTABLE": str(ssh)}) as process:
            output = process.stdout.read()
            _unused, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        if process.returncode:
            raise RuntimeError(f"{process.args} ended with {process.returncode}:\n{output}")
        # Linux counts to a process what the one that started it held until then (getrusage(2): ru_maxrss outlives execve).
        if usage.ru_maxrss <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            raise RuntimeError(f"{process.args} held {usage.ru_maxrss} KiB, or this process did before it")
        return Played(
            seconds,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / 1024,
            len(re.findall(r"^(?:ok|changed): ", output, re.M)),
            len(calls.read_text().splitlines()) if calls.exists() else 0,
            sum(map(int, re.findall(r"changed=(\d+)", output))),
            output,
        )


def run(command: list[str]) -> str:
    """What it says; RuntimeError with all that it said if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout

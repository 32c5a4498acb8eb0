"""Stands in for nginx: a master with a worker, and another one by SIGHUP, while the one before finishes what it has. Titles as nginx has them.

Given -t it refuses a configuration that holds the word "bad". While there is a file `deaf` in its directory it takes no SIGHUP, and while
there is one `busy` no worker finishes. Nor does it take a SIGHUP if it would have to listen at another address of a port that it holds.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

WORKER = "nginx: worker process"
config = Path(sys.argv[-1])
home = config.parent
workers: list[subprocess.Popen[bytes]] = []
leaving: list[subprocess.Popen[bytes]] = []
held: dict[str, str] = {}


def process(title: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([title, "1000"], executable="/bin/sleep")


def renew(*_unused: object) -> None:
    wanted = {port: address for address, port in re.findall(r"listen (.*):(\d+);", config.read_text())}
    if not (home / "deaf").exists() and all(held.get(port, address) == address for port, address in wanted.items()):
        held.clear()
        held.update(wanted)
        workers.append(process(WORKER))
        if len(workers) > 1:
            leaving.append(process(f"{WORKER} is shutting down"))
            end(workers.pop(0))


def end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()


if "-t" in sys.argv:
    faulty = [file for file in [config, *home.glob("replicas/*.conf")] if "bad" in file.read_text()]
    sys.exit(f'nginx: [emerg] unknown directive "bad" in {faulty[0]}:1' if faulty else 0)
signal.signal(signal.SIGHUP, renew)
renew()
(home / "run/nginx.pid").write_text(f"{os.getpid()}\n")
while not (home / "over").exists():
    while leaving and not (home / "busy").exists():
        end(leaving.pop())
    time.sleep(0.02)
for one in workers + leaving:
    end(one)

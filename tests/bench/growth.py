"""f. How time and memory grow with the number of hosts.

The hosts are names of one machine, over a local connection, with the controller on it too: what grows is the controller. That machine is a
host of the fleet with a double in vLLM's place, so that every name finds a server and nothing to do.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.llmops.vllm.tests.bench.plays import Played, played
from ansible_collections.llmops.vllm.tests.bench.rerun import FORKS
from ansible_collections.llmops.vllm.tests.bench.results import CLONE, Result, Target
from ansible_collections.llmops.vllm.tests.fleet import double
from ansible_collections.llmops.vllm.tests.fleet.acting import HOME, MODELS
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.serving import PAIR, lay, variables

SIZES = {"site": (1, 10, 100), "status": (1, 10, 100, 500)}
BOOKS = {"site": "../tests/bench/unmeasured", "status": "status"}
TITLES = {"site": "site.yml, but for its measurement,", "status": "status.yml"}


def measure() -> Iterator[Result]:
    python = Path(os.path.realpath(sys.executable)).parents[1]
    binds = {PAIR, CLONE, python, Path(sys.prefix).resolve()}
    with Fleet(systemd=1, binds=binds) as fleet:
        host = fleet.hosts[0]
        host.run("chmod a+x /root")  # the Python may lie there
        double.install(host)
        lay(host, MODELS)
        host.write("/root/variables.json", json.dumps(variables(HOME, double.VENV, MODELS)))
        _play(host, "site", 1)
        for book, sizes in SIZES.items():
            runs = {size: _play(host, book, size) for size in sizes}
            yield _result(book, runs)


def _result(book: str, runs: dict[int, Played]) -> Result:
    each = {size: run.seconds / size for size, run in runs.items()}
    first, last = min(runs), max(runs)
    more = (runs[last].seconds - runs[first].seconds) / (last - first)
    half = [size for size in runs if size != last][-1]
    before = (runs[half].seconds - runs[first].seconds) / (half - first)
    rows = {
        f"{size} host{'s' if size > 1 else ''}": (run.seconds, each[size], run.megabytes) for size, run in runs.items()
    }
    return Result(
        f"f-growth-{book}",
        f"{TITLES[book]} on more and more hosts",
        f"With nothing to do. The hosts are names of one machine, over a local connection, {FORKS} forks, so its cores do the hosts' work as well.",
        ("seconds", "seconds per host", "MiB on the controller"),
        rows,
        targets=[
            Target(
                f"Linear: a host more costs at most 1.3 times as much among {last} as among {half}", more / before, 1.3
            ),
        ],
    )


def _play(host: Host, book: str, hosts: int) -> Played:
    names = ",".join(f"sim{n}" for n in range(hosts)) + ","

    def start(_unused: dict[str, str]) -> subprocess.Popen[str]:
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
            "ANSIBLE_HOME": "/root/.ansible",
            "VLLM_REPORT_DIRECTORY": "/root/reports",
            "ANSIBLE_FORKS": str(FORKS),
            "ANSIBLE_NOCOLOR": "1",
        }
        play = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *(
                "-i",
                names,
                "-c",
                "local",
                "-e",
                "@/root/variables.json",
                "-e",
                "ansible_python_interpreter=/usr/bin/python3",
            ),
            f"playbooks/{BOOKS[book]}.yml",
        ]
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *play]
        return subprocess.Popen(
            host.within(f"cd {shlex.quote(str(CLONE))}; exec {shlex.join(words)}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return played(start)

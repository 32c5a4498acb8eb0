"""The playbooks driven as an operator drives them: ansible-playbook, the inventory of the clone, the real engine."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

CLONE = Path(__file__).parents[2]
VENV = Path(sys.executable).parent


@dataclasses.dataclass(frozen=True)
class Run:
    """One ansible-playbook run, with its recap for the one host there is."""

    code: int
    output: str
    seconds: float

    @property
    def changed(self) -> int:
        (count,) = re.findall(r"changed=(\d+)", self.output)
        return int(count)

    @property
    def changes(self) -> list[str]:
        """The tasks that changed something."""
        tasks = re.split(r"^TASK ", self.output, flags=re.MULTILINE)[1:]
        return [task.splitlines()[0] for task in tasks if re.search(r"^changed:", task, re.MULTILINE)]


class Site:
    """One instance of the server, apart from the demo's but on the same build."""

    def __init__(self, name: str) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.variables = {"vllm_instance": name, "vllm_serve_port": port}
        self.home = CLONE / ".demo/vllm/instances" / name

    def start(self, playbook: str, *options: str, **variables: object) -> subprocess.Popen[str]:
        extra = json.dumps({**self.variables, **variables})
        return subprocess.Popen(
            [
                VENV / "ansible-playbook",
                "-i",
                "inventories/localhost",
                f"playbooks/{playbook}.yml",
                "-e",
                extra,
                *options,
            ],
            cwd=CLONE,
            env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def play(self, playbook: str, *options: str, **variables: object) -> Run:
        began = time.monotonic()
        process = self.start(playbook, *options, **variables)
        output = process.communicate()[0]
        run = Run(process.returncode, output, time.monotonic() - began)
        print(f"{playbook}.yml ended with {run.code} after {run.seconds:.1f} s\n{run.output}")
        return run

    @property
    def record(self) -> processes.PidFile | None:
        """What the pid file says now."""
        return processes.read_pidfile(str(self.home / "run/server.pid"))


@pytest.fixture(scope="module")
def site(request):
    site = Site(request.path.stem.replace("_", "-"))
    yield site
    assert site.play("stop").code == 0

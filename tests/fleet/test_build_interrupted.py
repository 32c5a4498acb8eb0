"""A build on a real host, with nothing behind its network, while the play, the installer, the connection or the host itself dies.

What is built is a stand-in for vLLM that takes a second (tests/unit/build/standin.py), and waits while it compiles until it may go on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.unit.build.standin import PULL, Repository

pytestmark = pytest.mark.long

CLONE = Path(__file__).parents[2]
COMPILE = """
import os, time
if os.path.exists("/srv/wait"):
    open("/srv/compiling", "w").close()
    while os.path.exists("/srv/wait"):
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("upstream") / "vllm")


@pytest.fixture(scope="module")
def fleet(fleets, repository):
    return fleets(systemd=1, binds=[repository.path])


class Plays:
    def __init__(self, fleet, repository, home: str) -> None:
        self.fleet = fleet
        self.home = home
        self.variables = {
            "vllm_home": home,
            "vllm_user": "root",
            "vllm_host_create_user": False,
            "vllm_build_mode": "git",
            "vllm_build_repo": repository.url,
            "vllm_build_ref": PULL,
            "vllm_build_commit": repository.head,
            "vllm_build_kernels": "compile",
            "vllm_build_device": "cpu",
            "vllm_build_layer": "/srv",
            "vllm_build_offline": True,
            "vllm_build_env": {"STANDIN": COMPILE},
        }

    def start(self) -> subprocess.Popen[str]:
        program = Path(sys.executable).with_name("ansible-playbook")
        return subprocess.Popen(
            [program, "-i", self.fleet.inventory, "playbooks/build.yml", "-e", json.dumps(self.variables)],
            cwd=CLONE,
            env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self, process: subprocess.Popen[str]) -> str:
        output = process.communicate()[0]
        print(output)
        assert process.returncode == 0
        return output


@pytest.mark.parametrize("victim", ["play", "installer", "connection", "host"])
def test_the_next_run_ends_with_a_whole_build(fleet, repository, victim):
    (host,) = fleet.hosts
    plays = Plays(fleet, repository, f"/srv/{victim}")
    host.run("rm -f /srv/compiling; touch /srv/wait")
    play = plays.start()
    wait_for("it compiles", lambda: host.run("test -e /srv/compiling", check=False).returncode == 0, 120)
    pid = int(json.loads(host.run(f"cat {plays.home}/builds/*/run/install.pid").stdout)["pid"])
    if victim == "installer":
        host.run(f"kill -9 {pid}")
    elif victim == "connection":
        host.link.cut()
    elif victim == "host":
        host.kill()
    if victim in ("play", "host"):
        play.kill()
    if victim == "host":
        play.communicate()
        host.start()
    host.console("rm -f /srv/wait")
    if victim == "connection":
        host.link.heal()
        plays.finish(play)
    elif victim == "installer":
        assert "SIGKILL" in re.sub(r"\s+", " ", play.communicate()[0])
    else:
        play.communicate()

    plays.finish(plays.start())
    stamp = json.loads(host.run(f"cat {plays.home}/builds/*/build.json").stdout)
    assert stamp["commit"] == repository.head
    again = plays.finish(plays.start())
    assert re.search(r"changed=(\d+)", again)[1] == "0"
    assert f"commit: {repository.head}" in again
    logs = host.run(f"ls {plays.home}/builds/*/log").stdout.split()
    assert len(logs) == (2 if victim in ("installer", "host") else 1), (
        "a job that lives is joined, a dead one begun anew"
    )

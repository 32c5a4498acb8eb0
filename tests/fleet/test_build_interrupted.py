"""A build on a real host, with nothing behind its network, while the play, the installer, the connection or the host itself dies.

What is built is a stand-in for vLLM that takes a second (tests/unit/build/standin.py), and waits while it compiles until it may go on.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.unit.build.standin import PULL, Repository

CLONE = Path(__file__).parents[2]
COMPILE = """
import os, time
if os.path.exists("/srv/flags/wait"):
    open("/srv/flags/compiling", "w").close()
    while os.path.exists("/srv/flags/wait"):
        time.sleep(0.1)
"""
VICTIMS = ("play", "installer", "connection", "host")
KILL = "kill -9 $(grep -o '\"pid\": [0-9]*' {home}/builds/*/install.pid | grep -o '[0-9]*')"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("upstream") / "vllm")


@pytest.fixture(scope="module")
def fleet(fleets, repository):
    fleet = fleets(systemd=1, binds=[repository.path])
    # Of this machine's root, while the installer runs as vllm: git wants to be told that this is meant.
    fleet.hosts[0].run(f"git config --system --add safe.directory {repository.path}/.git")
    return fleet


class Plays:
    """The playbook that builds, on the one host there is, in a home of its own."""

    def __init__(self, fleet, repository, home: str) -> None:
        self.inventory = fleet.inventory
        (self.host,) = fleet.hosts
        self.home = home
        self.variables = {
            "vllm_home": home,
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

    def ansible(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {
            "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml" if program == "ansible-playbook" else "json",
        }
        return subprocess.Popen(
            [Path(sys.executable).with_name(program), "-i", self.inventory, *arguments],
            cwd=CLONE,
            env={**os.environ, **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def start(self) -> subprocess.Popen[str]:
        return self.ansible("ansible-playbook", "playbooks/build.yml", "-e", json.dumps(self.variables))

    def finish(self, process: subprocess.Popen[str]) -> str:
        output = process.communicate()[0]
        print(output)
        assert process.returncode == 0
        return output

    def complete(self, proof: str) -> bool:
        """What vllm_build_info says of what is there."""
        directory = self.host.run(f"ls -d {self.home}/builds/*", check=False).stdout.strip() or f"{self.home}/none"
        asked = {"venv": f"{directory}/venv", "stamp": f"{directory}/build.json", "proof": proof}
        said = self.finish(self.ansible("ansible", "all", "-m", "llmops.vllm.vllm_build_info", "-a", json.dumps(asked)))
        return bool(json.loads(said[said.index("{") :])["complete"])

    def strike(self, play: subprocess.Popen[str], victim: str) -> None:
        """Let it befall the victim, and return when the play has ended and the host is as before."""
        if victim == "installer":
            self.host.run(KILL.format(home=self.home), check=False)
        elif victim == "connection":
            self.host.link.cut()
            time.sleep(2)  # so long is it out
            self.host.link.heal()
        else:
            if victim == "host":
                self.host.kill()
            play.kill()
        print(play.communicate()[0])
        if victim == "host":
            self.host.start()

    def prove(self, repository) -> str:
        """The next run ends with a whole build, and the one after has nothing to do. What that says."""
        self.finish(self.start())
        stamp = json.loads(self.host.run(f"cat {self.home}/builds/*/build.json").stdout)
        assert stamp["commit"] == repository.head
        again = self.finish(self.start())
        assert re.search(r"changed=(\d+)", again)[1] == "0"
        assert f"commit: {repository.head}" in again
        return again

    def installers(self) -> int:
        """How many there were."""
        return len(self.host.run(f"ls {self.home}/builds/*/install-*.log").stdout.split())


@pytest.mark.parametrize("victim", VICTIMS)
def test_the_next_run_ends_with_a_whole_build(fleet, repository, victim):
    """While it compiles, so it is known what was there to be killed or joined."""
    plays = Plays(fleet, repository, f"/srv/{victim}")
    plays.host.run("install -d -m 777 /srv/flags; rm -f /srv/flags/compiling; touch /srv/flags/wait")
    play = plays.start()
    compiling = "test -e /srv/flags/compiling"
    wait_for(
        "it compiles", lambda: plays.host.run(compiling, check=False).returncode == 0 or play.poll() is not None, 120
    )
    assert play.poll() is None, play.communicate()[0]
    if victim == "connection":
        plays.host.link.cut()
        plays.host.console("rm /srv/flags/wait")
        plays.host.link.heal()
        plays.finish(play)
    else:
        plays.strike(play, victim)
        assert not plays.complete("quick")
        plays.host.console("rm /srv/flags/wait")
    plays.prove(repository)
    assert plays.installers() == (2 if victim in ("installer", "host") else 1), "one that lives is joined"


@pytest.fixture(scope="module")
def usual(fleet, repository):
    """Seconds that a first run takes from end to end."""
    plays = Plays(fleet, repository, "/srv/usual")
    began = time.monotonic()
    plays.finish(plays.start())
    return time.monotonic() - began


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_struck_at_any_moment(fleet, repository, usual, seed):
    chance = random.Random(seed)
    plays = Plays(fleet, repository, f"/srv/chance{seed}")
    play = plays.start()
    time.sleep(chance.uniform(0, usual))  # the moment itself
    plays.strike(play, VICTIMS[seed % len(VICTIMS)])
    if plays.complete("quick"):  # in this order, since a job that lives goes on
        assert plays.complete("full"), "what looks complete is"
    plays.prove(repository)


@pytest.mark.long
def test_an_old_build_is_removed_by_the_user_that_made_it(fleet, repository):
    """Some of its files are root's, who started the installer."""
    plays = Plays(fleet, repository, "/srv/old")
    plays.finish(plays.start())
    plays.variables.update(vllm_build_commit=repository.first, vllm_build_keep=1)
    plays.finish(plays.start())
    assert [name[:12] for name in plays.host.run("ls /srv/old/builds").stdout.split()] == [repository.first[:12]]

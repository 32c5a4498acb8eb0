"""The server's life on real hosts, by the playbooks, over SSH, with the real engine: launched, left alone, changed, killed, stopped.

All of it under a home and with models whose names hold what breaks unquoted paths, and with a key that must be seen nowhere.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, Serving, changed, served

pytestmark = [pytest.mark.engine, pytest.mark.long]
CANARY = "canary-5f1d0c"
ODD = 'a höme, it\'s "50%" 目标'
HOME, MODELS = f"/opt/{ODD}", f"/srv/{ODD}"
UNIT = "vllm-one.service"


@dataclasses.dataclass(frozen=True)
class Site:
    """One host and the playbooks that are run on it."""

    serving: Serving
    host: Host

    def play(self, playbook: str, *options: str, **variables: object) -> str:
        return self.serving.play(playbook, "-l", self.host.name, *options, **self.named(variables))

    def start(self, playbook: str, **variables: object) -> subprocess.Popen[str]:
        return self.serving.start(playbook, "-l", self.host.name, **self.named(variables))

    def named(self, variables: dict[str, object]) -> dict[str, object]:
        return {"vllm_instance": "one", "vllm_serve_api_key": CANARY, **variables}

    @property
    def processes(self) -> dict[int, str]:
        return served(self.host)

    def pid(self, word: str) -> int:
        return next(pid for pid, args in self.processes.items() if word in args)

    def row(self) -> dict[str, str]:
        """The host's line in the table of status.yml."""
        said = self.play("status")
        titles, line = (
            re.split(r"\s{2,}", row.strip()) for row in re.findall(r"^ +(?:host|gpu\d) .*", said, re.MULTILINE)
        )
        return dict(zip(titles, line))


@pytest.fixture(scope="module")
def serving(fleets) -> Serving:
    return Serving.on(fleets, HOME, MODELS, systemd=1, plain=1)


# Which host a test is about, if it isn't about both: without systemd nobody starts a server again that died, or when the host boots.
supervised = pytest.mark.parametrize("site", [0], ids=["systemd"], indirect=True)
kept = pytest.mark.parametrize("site", [1], ids=["process"], indirect=True)


@pytest.fixture(scope="module", params=[0, 1], ids=["systemd", "process"])
def site(serving, request) -> Iterator[Site]:
    site = Site(serving, serving.fleet.hosts[request.param])
    yield site
    print(site.host.run("journalctl --no-pager -n 60 2>/dev/null || true").stdout)


def test_launched_and_the_key_is_seen_nowhere(site):
    said = site.play("site", "-vvv", "--diff")
    assert CANARY not in said
    assert CANARY not in site.host.run("ps -eo args").stdout
    assert CANARY not in site.host.run("cat /etc/systemd/system/vllm-* 2>/dev/null || true").stdout
    assert CANARY not in site.host.run("journalctl --no-pager 2>/dev/null || true").stdout
    home = shlex.quote(HOME)
    held = site.host.run(f"grep -rl {CANARY} {home} /etc /var/log /tmp /root 2>/dev/null || true").stdout.splitlines()
    assert [Path(path).name for path in held] == ["env.json"]
    assert site.host.run(f"stat -c '%a %U' {shlex.quote(held[0])}").stdout == "600 vllm\n"
    assert site.host.run(f"ps -o user= -p {site.pid('/bin/vllm')}").stdout == "vllm\n"
    refused = site.host.run(
        "python3 -c 'import urllib.request as r; r.urlopen(\"http://127.0.0.1:18500/v1/models\")'", check=False
    )
    assert "HTTP Error 401" in refused.stderr


def test_a_second_run_changes_nothing(site):
    before = site.processes
    assert changed(site.play("site")) == 0
    assert site.processes == before


@supervised
def test_the_unit_is_hardened(site):
    said = site.host.run(f"systemd-analyze security --no-pager {UNIT} | tail -n 1").stdout
    print(said)
    assert float(re.search(r"([\d.]+) OK", said)[1]) <= 3.0


def test_status_tells_what_runs(site):
    row = site.row()
    assert row["host"] == site.host.name
    assert row["state"] == ("active (running)" if site.host.systemd else "running")
    assert row["restarts"] == ("0" if site.host.systemd else "-")
    assert float(row["acceptance"]) > 7
    assert row["port"] == "18500"


@supervised
def test_an_engine_that_dies_takes_the_server_along_and_is_started_again(site):
    server = site.pid("/bin/vllm")
    site.host.run(f"kill -KILL {site.pid('VLLM::EngineCore')}")
    wait_for("it is started again", lambda: site.processes and server not in site.processes, 120)
    ended = site.host.run(f"journalctl --no-pager -u {UNIT} -o cat | grep -c 'Deactivated successfully'").stdout
    assert int(ended) >= 1, "the server ended with exit code 0"
    assert changed(site.play("site")) == 0, "the same release, ready again"
    assert site.row()["restarts"] == "1"


@kept
def test_what_a_killed_server_left_is_named_and_ended_by_the_next_start(site):
    """systemd would end it by itself, since it is in the control group."""
    left = {pid for pid, args in site.processes.items() if args.startswith("VLLM::")}
    site.host.run(f"kill -KILL {site.pid('/bin/vllm')}")
    assert left <= set(site.processes), "vLLM leaves its engine behind"
    said = " ".join(site.play("site").split())
    assert all(f"pid {pid} (VLLM::" in said for pid in left)
    assert not left & set(site.processes)


@supervised
def test_after_a_boot_it_is_back(site):
    site.host.reboot()
    assert changed(site.play("site")) == 0, "it came back by itself; the play only waited for it"


def test_one_changed_argument_restarts_and_says_so(site):
    before = site.pid("/bin/vllm")
    said = site.play("site", vllm_serve_args={**ARGS, "max-num-seqs": 3})
    assert "arguments: --max-num-seqs=4 -> --max-num-seqs=3" in said
    assert before not in site.processes
    current, previous = site.host.run(
        f"cd {shlex.quote(HOME)}/instances/one && readlink current previous"
    ).stdout.split()
    assert current != previous


def test_restarted_on_request(site):
    before = site.pid("/bin/vllm")
    assert changed(site.play("restart")) >= 1
    assert before not in site.processes
    assert site.pid("/bin/vllm")
    assert changed(site.play("site", vllm_serve_args={**ARGS, "max-num-seqs": 3})) == 0, "the same release as before"


def test_two_instances_one_of_them_on_two_workers(site):
    """The second takes the story's tensor-parallel-size 2; neither is disturbed by the other."""
    first = site.pid("/bin/vllm")
    site.play(
        "site",
        vllm_instance="two",
        vllm_serve_port=18501,
        vllm_serve_args={**ARGS, "tensor-parallel-size": 2},
        vllm_serve_env={"VLLM_CPU_OMP_THREADS_BIND": "nobind"},
    )
    assert sum(args.startswith("VLLM::Worker_TP") for args in site.processes.values()) == 2
    assert changed(site.play("stop", vllm_instance="two")) == 1
    assert not any(args.startswith("VLLM::Worker_TP") for args in site.processes.values())
    assert first in site.processes


def test_stopped_while_it_loads(site):
    """vLLM ignores the first TERM while it starts."""
    with site.start("site", vllm_serve_args={**ARGS, "max-num-seqs": 2}) as run:
        old = site.pid("/bin/vllm")
        wait_for(
            "the new one loads", lambda: any("/bin/vllm" in a and pid != old for pid, a in site.processes.items()), 120
        )
        site.play("stop", vllm_serve_stop_timeout=20)
        assert site.processes == {}
        run.communicate()
        assert run.returncode != 0
    assert changed(site.play("stop")) == 0
    assert site.row()["state"] in ("stopped", "inactive (dead)")

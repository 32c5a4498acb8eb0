"""The server's life on real hosts, by the playbooks, over SSH, with the real engine: launched, left alone, changed, killed, stopped.

All of it under a home and with models whose names hold what breaks unquoted paths, and with a key that must be seen nowhere.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

pytestmark = [pytest.mark.engine, pytest.mark.long]
CLONE = Path(__file__).parents[2]
BUILDS = CLONE / ".demo/vllm/builds"
PAIR = CLONE / "playbooks/files/tiny-pair"
CANARY = "canary-5f1d0c"
ODD = 'a höme, it\'s "50%" 目标'
HOME, MODELS = f"/opt/{ODD}", f"/srv/{ODD}"
UNIT = "vllm-one.service"
ARGS = {
    "served-model-name": "tiny",
    "dtype": "float32",
    "enforce-eager": True,
    "max-model-len": 512,
    "max-num-seqs": 4,
    "max-num-batched-tokens": 512,
    "kv-cache-memory-bytes": "64M",
}
VARIABLES = {
    "vllm_home": HOME,
    "vllm_instance": "one",
    "vllm_build_mode": "existing",
    "vllm_models_target": {"path": f"{MODELS}/target"},
    "vllm_models_drafter": {"path": f"{MODELS}/drafter"},
    "vllm_drafter_values": {
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
        "layer_types": ["sliding_attention"] * 3,
        "sliding_window": 24,
    },
    "vllm_serve_port": 18500,
    "vllm_serve_api_key": CANARY,
    "vllm_serve_timeout": 600,
    "vllm_serve_speculative": {"num_speculative_tokens": 7},
    "vllm_serve_args": ARGS,
    "vllm_verify_acceptance_length": 7,
    "vllm_verify_prompts": [f"Recite chapter {n}" for n in range(8)],
    "vllm_verify_max_tokens": 400,
    "vllm_verify_unique_prefix": False,
}


@dataclasses.dataclass(frozen=True)
class Site:
    """One host and the playbooks that are run on it."""

    fleet: Fleet
    host: Host
    venv: Path

    def play(self, playbook: str, *options: str, **variables: object) -> str:
        """What the playbook said; it must have gone well."""
        with self.start(playbook, *options, **variables) as run:
            said = run.communicate()[0]
        print(said)
        assert run.returncode == 0, f"{playbook} on {self.host.name} failed"
        return said

    def start(self, playbook: str, *options: str, **variables: object) -> subprocess.Popen[str]:
        extra = self.fleet.home / "variables.json"  # not an argument, or the key would be in ps of this machine
        extra.write_text(json.dumps({**VARIABLES, "vllm_build_venv": str(self.venv), **variables}))
        return subprocess.Popen(
            [
                Path(sys.executable).with_name("ansible-playbook"),
                f"playbooks/{playbook}.yml",
                *("-i", self.fleet.inventory, "-l", self.host.name, "-e", f"@{extra}", *options),
            ],
            cwd=CLONE,
            env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def processes(self) -> dict[int, str]:
        """vLLM's processes there."""
        listed = self.host.run("ps -eo pid=,args=").stdout.splitlines()
        rows = (line.split(None, 1) for line in listed)
        return {int(pid): args for pid, args in rows if "/bin/vllm" in args or args.startswith("VLLM::")}

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
def fleet(fleets) -> Fleet:
    engines = sorted(BUILDS.glob("*/build.json"))
    if not engines:
        pytest.skip("there is no engine yet: make demo installs it")
    build = engines[-1].resolve().parent
    venv = build / "venv"
    python = Path(os.path.realpath(venv / "bin/python")).parents[1]
    fleet = fleets(systemd=1, plain=1, binds=[build, python, PAIR])
    for host in fleet.hosts:
        host.run("chmod a+x /root")  # the Python may lie there
        host.run(f"mkdir -p {shlex.quote(MODELS)} && cp -r {shlex.quote(str(PAIR))}/* {shlex.quote(MODELS)}")
    fleet.venv = venv
    return fleet


# Which host a test is about, if it isn't about both: without systemd nobody starts a server again that died, or when the host boots.
supervised = pytest.mark.parametrize("site", [0], ids=["systemd"], indirect=True)
kept = pytest.mark.parametrize("site", [1], ids=["process"], indirect=True)


@pytest.fixture(scope="module", params=[0, 1], ids=["systemd", "process"])
def site(fleet, request) -> Iterator[Site]:
    site = Site(fleet, fleet.hosts[request.param], fleet.venv)
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
    assert changed(site.play("restart")) == 1
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


def changed(said: str) -> int:
    (count,) = re.findall(r"changed=(\d+)", said)
    return int(count)

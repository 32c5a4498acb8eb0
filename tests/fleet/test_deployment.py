"""One server over two real hosts, with the real engine: started, left alone, refused, broken, and brought back.

The head has systemd, the follower has nothing but sshd.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet import clock, double
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, Serving, changed, served

pytestmark = [pytest.mark.engine, pytest.mark.long]
HOME = "/opt/vllm"
CURRENT = f"{HOME}/instances/default/current"
PORT = 29501
TCP = 6  # by its number, as the hosts have no list of names
KEY = "canary-90cc1e"
LOADS = "headless multiproc executor"
"""What a follower says when it looks for its head."""


@dataclasses.dataclass(frozen=True)
class Site:
    serving: Serving
    place: Path
    head: Host
    follower: Host

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.head, self.follower

    def start(
        self, playbook: str, *options: str, follower: dict | None = None, **more: object
    ) -> subprocess.Popen[str]:
        """follower: what the inventory says of that host alone."""
        inventory = self.place / "deployment.json"
        hosts = {self.head.name: {}, self.follower.name: follower or {}}
        group = {"hosts": hosts, "vars": {"vllm_deployment": "big"}}
        inventory.write_text(json.dumps({"all": {"children": {"big": group}}}))
        more = {
            "vllm_serve_args": {**ARGS, "tensor-parallel-size": 2},
            # Two ranks on the cores of one machine would spin in each other's way.
            "vllm_serve_env": {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
            "vllm_serve_api_key": KEY,
            "vllm_deployment_timeout": 15,
            **more,
        }
        if follower and "other_venv" in follower:
            more["vllm_build_venv"] = "{{ other_venv | default('" + str(self.serving.venv) + "') }}"
        return self.serving.start(playbook, "-i", str(inventory), *options, **more)

    def play(self, playbook: str, *options: str, well: bool = True, **more: object) -> str:
        with self.start(playbook, *options, **more) as run:
            said = run.communicate()[0]
        print(said, flush=True)
        assert (run.returncode == 0) == well, f"{playbook} ended with {run.returncode}"
        assert KEY not in said
        return " ".join(said.split())

    def pids(self) -> list[set[int]]:
        return [set(served(host)) for host in self.hosts]

    def releases(self) -> list[str]:
        return [host.run(f"readlink {CURRENT}").stdout.strip() for host in self.hosts]

    def joins(self) -> bool:
        """Whether the follower that is starting looks for its head."""
        newest = f'cd {HOME}/instances/default/log && cat "$(ls -t | head -n 1)"'
        return bool(served(self.follower)) and LOADS in self.follower.run(newest, check=False).stdout


def answer(site: Site) -> str:
    """What the head says to a question."""
    ask = (
        "import json, sys, urllib.request as web; "
        "print(json.load(web.urlopen(web.Request(sys.argv[1], sys.stdin.read().encode(), "
        "{'Content-Type': 'application/json', 'Authorization': sys.argv[2]}), timeout=60))['choices'][0]['message']['content'])"
    )
    question = {"role": "user", "content": "Recite chapter 3"}
    return site.head.run(
        f"python3 -c {shlex.quote(ask)} http://127.0.0.1:18500/v1/chat/completions 'Bearer {KEY}'",
        input=json.dumps({"model": "tiny", "messages": [question], "max_tokens": 40, "temperature": 0}),
        timeout=90,
    ).stdout


@pytest.fixture(scope="module")
def site(fleets, tmp_path_factory) -> Site:
    serving = Serving.on(fleets, HOME, "/srv/models", systemd=1, plain=1)
    return Site(serving, tmp_path_factory.mktemp("site"), *serving.fleet.hosts)


def nothing_runs(site: Site) -> bool:
    return site.pids() == [set(), set()]


def refused(said: str) -> None:
    assert "Nothing was stopped or started." in said


def test_a_wrong_interface_is_refused(site):
    said = site.play("site", well=False, follower={"vllm_deployment_interface": "lo"})
    refused(said)
    assert re.search(rf"{site.follower.name}\S*: FAILED! .*lo", said)
    assert nothing_runs(site)


def test_a_firewalled_port_is_refused(site):
    """Dropped in silence, as firewalls do, on the way into the head."""
    with dropped(site.head, f"ipproto {TCP} dport {PORT}-{PORT + 1}"):
        said = site.play("site", well=False)
    refused(said)
    assert f"{site.follower.name} " in said and f"{site.head.address}:{PORT}" in said
    assert nothing_runs(site)


def test_a_firewall_with_a_hole_for_one_port_is_refused(site):
    """They meet. But what one of them begins at ports that the system chose is dropped."""
    with dropped(site.follower, f"ipproto {TCP} sport 32768-60999 dport 32768-60999 from {site.head.address}"):
        said = site.play("site", well=False)
    refused(said)
    assert f"{site.head.name} could not reach {site.follower.name}" in said
    assert nothing_runs(site)


def test_clocks_that_differ_are_refused(site):
    clock.shift(site.follower, 120)
    try:
        said = site.play("site", well=False)
    finally:
        clock.shift(site.follower, 0)
    refused(said)
    assert "clock" in said
    assert nothing_runs(site)


def test_another_vllm_on_the_follower_is_refused(site):
    double.install(site.follower)
    said = site.play("site", well=False, follower={"other_venv": double.VENV})
    refused(said)
    assert "the version of vLLM is" in said
    assert nothing_runs(site)


def test_another_model_on_the_follower_is_refused(site):
    site.follower.run("cp -r /srv/models /srv/others && echo >> /srv/others/target/tokenizer.json")
    said = site.play(
        "site",
        well=False,
        follower={"others": "/srv/others"},
        vllm_models_target={"path": "{{ others | default('/srv/models') }}/target"},
    )
    refused(said)
    assert (
        f"What /srv/models/target holds on {site.head.name} is not what /srv/others/target holds on {site.follower.name}"
        in said
    )
    assert nothing_runs(site)


def test_a_part_of_it_is_refused(site):
    said = site.play("site", "--limit", site.head.name, well=False)
    refused(said)
    assert f"{site.follower.name} has no part in this run" in said
    assert nothing_runs(site)


def test_one_process_of_ansible_is_refused(site):
    said = site.play("site", "--forks", "1", well=False)
    refused(said)
    assert "Ansible does so with 1 only: raise forks." in said


def test_it_is_deployed_and_verified(site):
    site.play("site")
    assert all(site.pids())
    evidence = [json.loads(host.run(f"cat {CURRENT}/evidence.json").stdout) for host in site.hosts]
    assert [told["verdict"] for told in evidence] == ["pass", "pass"]
    assert evidence[0]["measured"]["acceptance_rate"] >= 0.95
    assert answer(site)


def test_a_second_run_changes_nothing(site):
    before = site.pids()
    assert changed(site.play("site")) == 0
    assert changed(site.play("site", "--check")) == 0
    assert site.pids() == before


def test_status_tells_both(site):
    said = site.play("status")
    assert "0 of 2" in said
    assert "1 of 2" in said


def test_a_rollout_takes_it_as_one(site):
    """Of batches of one, as each host alone would be."""
    before = site.releases()
    site.play("rollout", vllm_serve_args={**ARGS, "tensor-parallel-size": 2, "max-num-seqs": 3})
    assert not set(before) & set(site.releases())


def test_what_falls_short_goes_back_on_both(site):
    before = site.releases()
    said = site.play(
        "rollout",
        well=False,
        vllm_serve_args={**ARGS, "tensor-parallel-size": 2, "max-num-seqs": 2},
        vllm_verify_acceptance_length="{{ 7 if (vllm_serve_result.release | basename) in proven else 9 }}",
        proven=[release.rpartition("/")[2] for release in before],
    )
    assert all(f"{host.name} is back at" in said for host in site.hosts)
    assert site.releases() == before
    assert all(site.pids())


def test_a_follower_that_is_killed_is_seen_and_the_next_run_ends_well(site):
    site.follower.run("kill -KILL " + " ".join(map(str, site.pids()[1])))
    assert f"without {site.follower.name}" in site.play("status")
    site.play("site")
    assert all(site.pids())
    assert answer(site)


def test_a_head_that_is_killed_is_seen_and_the_next_run_ends_well(site):
    site.head.run("systemctl kill --signal KILL vllm-default.service; systemctl stop vllm-default.service")
    assert f"without {site.head.name}" in site.play("status")
    site.play("site")
    assert all(site.pids())
    assert answer(site)


@pytest.fixture
def stopped(site) -> Site:
    site.play("stop")
    assert nothing_runs(site)
    return site


def test_a_follower_killed_on_the_way_is_named(stopped):
    site = stopped
    with site.start("site") as run:
        wait_for("the follower looks for its head", site.joins, 120)
        site.follower.run("kill -KILL " + " ".join(map(str, served(site.follower))))
        said = " ".join(run.communicate()[0].split())
    print(said, flush=True)
    assert run.returncode != 0
    assert f"{site.follower.name} (rank 1)" in said
    assert nothing_runs(site)
    site.play("site")


def test_a_head_killed_on_the_way_is_named(stopped):
    site = stopped
    with site.start("site") as run:
        wait_for("the follower looks for its head", site.joins, 180)
        site.head.run("systemctl kill --signal KILL vllm-default.service")
        said = " ".join(run.communicate()[0].split())
    print(said, flush=True)
    assert run.returncode != 0
    assert f"{site.head.name} (rank 0)" in said
    assert nothing_runs(site)
    site.play("site")


def test_a_network_cut_between_them_is_named(site):
    """Ansible still reaches both. The completion hangs, and /health says 200."""
    with dropped(site.follower, f"from {site.head.address}"):
        said = site.play("site", well=False, vllm_serve_token_timeout=30, vllm_deployment_timeout=10)
    assert f"{site.follower.name} could not reach {site.head.name}" in said
    site.play("stop")
    assert nothing_runs(site)
    site.play("site")


def test_a_follower_cut_off_on_the_way_is_named(stopped):
    """Ansible does not reach it either: what runs there ends when it is seen again."""
    site = stopped
    with site.start("site") as run:
        wait_for("the follower looks for its head", site.joins, 180)
        site.follower.link.cut()
        said = " ".join(run.communicate()[0].split())
    site.follower.link.heal()
    print(said, flush=True)
    assert run.returncode != 0
    assert f"{site.follower.name} (rank 1): Ansible does not reach this host any more" in said
    assert not served(site.head)
    site.play("site")
    assert all(site.pids())


def test_it_is_stopped(site):
    site.play("stop")
    assert nothing_runs(site)


@contextlib.contextmanager
def dropped(host: Host, what: str) -> Iterator[None]:
    """What comes in and is like this is dropped in silence, as a firewall does. Rules can only tell before the local table has taken it."""
    host.console(
        "ip rule add pref 20 lookup local && ip rule del pref 0 && ip rule add pref 10 iif eth0 " + what + " blackhole"
    )
    try:
        yield
    finally:
        host.console("ip rule del pref 10; ip rule add pref 0 lookup local && ip rule del pref 20")

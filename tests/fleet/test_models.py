"""A model for a site of real hosts: what leaves the hub, and how long it takes, together and each for itself."""

from __future__ import annotations

import hashlib
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
from ansible_collections.llmops.vllm.tests.hub.hub import Hub
from ansible_collections.llmops.vllm.tests.hub.python import with_huggingface_hub

CLONE = Path(__file__).parents[2]
HOSTS = 6
PLAY = """
- hosts: all
  gather_facts: false
  serial: "{{ batches | default('100%') }}"
  roles:
    - llmops.vllm.vllm_models
  post_tasks:
    - name: Tell the test what must not be told
      ansible.builtin.copy:
        content: "{{ vllm_models_pass | default('') }}"
        dest: "{{ secret }}"
      delegate_to: localhost
      no_log: true
      when: secret is defined and vllm_models_pass is defined
"""


def model(size: int) -> dict[str, bytes]:
    """A model of so many bytes, in four parts."""
    parts = {f"model-{n}.safetensors": random.Random(n).randbytes(size // 4) for n in range(4)}
    return {"config.json": b"{}\n", **parts}


@pytest.fixture(scope="module")
def python():
    return with_huggingface_hub()


@pytest.fixture(scope="module")
def fleet(fleets, python):
    real = Path(os.path.realpath(python)).parents[1]
    fleet = fleets(systemd=0, plain=HOSTS, binds=[python.parents[1], real])
    for host in fleet.hosts:
        host.run("chmod a+x /root")
    return fleet


@pytest.fixture
def hub(fleet):
    with Hub(fleet.gateway) as hub:
        hub.add("some/target", model(8_000_000))
        hub.add("some/drafter", model(400_000))
        yield hub


class Plays:
    def __init__(self, fleet, hub, python, home, tmp_path) -> None:
        self.fleet, self.hub, self.home, self.tmp_path = fleet, hub, home, tmp_path
        self.kinds = ["target"]
        self.hosts = fleet.hosts[:3]  # of six, that only the figures need
        for host in fleet.hosts:
            host.run("mkdir -p /srv/drafter && touch /srv/drafter/config.json")
        self.variables = {
            "vllm_home": home,
            "vllm_user": "root",
            "vllm_models_endpoint": hub.url,
            "vllm_models_python": str(python),
            "vllm_models_target": self.wish("target"),
            "vllm_models_drafter": {"path": "/srv/drafter"},
        }
        (tmp_path / "play.yml").write_text(PLAY)

    def wish(self, kind: str) -> dict[str, str]:
        return {"repo": f"some/{kind}", "revision": self.hub.repositories[f"some/{kind}"].names["main"]}

    def start(self, *options: str, **variables: object) -> subprocess.Popen[str]:
        extra = self.tmp_path / "variables.json"
        extra.write_text(json.dumps({**self.variables, **variables}))
        return subprocess.Popen(
            [
                Path(sys.executable).with_name("ansible-playbook"),
                *("-f", "10", "-i", self.fleet.inventory, "-e", f"@{extra}"),
                *("--limit", ",".join(host.name for host in self.hosts)),
                *options,
                self.tmp_path / "play.yml",
            ],
            cwd=CLONE,
            env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def play(self, *options: str, well: bool = True, **variables: object) -> str:
        process = self.start(*options, **variables)
        said = process.communicate()[0]
        print(said)
        assert (process.returncode == 0) == well
        return said

    def prove(self) -> None:
        """Each host has each byte, and serves none."""
        for host in self.hosts:
            for kind in self.kinds:
                repository = self.hub.repositories[f"some/{kind}"]
                revision = repository.names["main"]
                directory = f"{self.home}/models/some--{kind}/{revision}"
                sums = host.run(f"cd {directory} && sha256sum *").stdout
                told = {name: digest for digest, name in (line.split() for line in sums.splitlines())}
                assert told == {
                    name: hashlib.sha256(data).hexdigest() for name, data in repository.revisions[revision].items()
                }
            assert host.run("pgrep -f serve.pyz", check=False).stdout == ""


@pytest.fixture
def plays(fleet, hub, python, request, tmp_path):
    return Plays(fleet, hub, python, f"/srv/{request.node.name.translate(str.maketrans('[] ', '---'))[:60]}", tmp_path)


def size(hub, *kinds: str) -> int:
    repositories = (hub.repositories[f"some/{kind}"] for kind in kinds or ("target",))
    return sum(sum(map(len, r.revisions[r.names["main"]].values())) for r in repositories)


def changed(said: str) -> list[int]:
    return list(map(int, re.findall(r"changed=(\d+)", said)))


def test_the_bytes_leave_the_hub_once(plays, hub):
    plays.kinds.append("drafter")
    plays.variables["vllm_models_drafter"] = plays.wish("drafter")
    said = plays.play("-vvv", vllm_models_site="here", secret=str(plays.tmp_path / "secret"))
    plays.prove()
    assert hub.sent == size(hub, "target", "drafter")
    token = (plays.tmp_path / "secret").read_text()
    assert len(token) == 40 and token not in said
    assert {asked.host for asked in hub.asked} == {plays.hosts[0].address}, "the others need no way to it"
    hub.forget()
    again = plays.play(vllm_models_site="here")
    assert changed(again) == [0] * len(plays.hosts)
    assert hub.asked == []


def test_once_over_all_batches(plays, hub):
    plays.play(vllm_models_site="here", batches=[1, "100%"])
    plays.prove()
    assert hub.sent == size(hub)


def test_a_new_host_takes_it_from_one_that_has_it(plays, hub):
    plays.play("--limit", "gpu2", vllm_models_site="here")
    hub.forget()
    plays.play(vllm_models_site="here")
    plays.prove()
    assert hub.asked == [], "what is right is known from the one that has it"


def test_two_sites_fetch_twice(plays, hub):
    inventory = "{{ 'east' if inventory_hostname in ['gpu1', 'gpu2'] else 'west' }}"
    (plays.tmp_path / "group_vars").mkdir()
    (plays.tmp_path / "group_vars/all.yml").write_text(f'vllm_models_site: "{inventory}"\n')
    plays.play()
    plays.prove()
    assert hub.sent == 2 * size(hub)


def test_a_flipped_byte_of_one_comes_from_its_neighbour(plays, hub):
    plays.play(vllm_models_site="here")
    hub.forget()
    victim = f"{plays.home}/models/some--target/{hub.repositories['some/target'].names['main']}/model-2.safetensors"
    flip = f"import os; s = os.stat('{victim}'); f = open('{victim}', 'r+b'); f.seek(9); f.write(b'?'); f.close(); "
    plays.hosts[2].run(f"python3 -c \"{flip} os.utime('{victim}', ns=(s.st_atime_ns, s.st_mtime_ns))\"")
    said = plays.play(vllm_models_site="here", vllm_models_verify="full")
    plays.prove()
    assert hub.sent == 0
    assert [bool(count) for count in changed(said)] == [host.name == "gpu3" for host in plays.hosts]


def test_the_others_are_told_when_the_one_that_fetches_fails(plays, hub):
    hub.repositories["some/target"].gated = True
    said = re.sub(r"\s+", " ", plays.play(well=False, vllm_models_site="here"))
    assert "some/target is gated, and no token was given" in said
    assert "gpu1, which fetches some/target for the site here, does not have it; see there." in said
    assert len(re.findall("is gated", said)) >= 1


def test_a_killed_play_does_not_end_a_fetch(plays, hub):
    hub.speed = 2_000_000
    play = plays.start("--limit", "gpu2")
    wait_for("bytes come", lambda: hub.sent > 500_000 or play.poll() is not None, 120)
    play.kill()
    play.communicate()
    plays.play("--limit", "gpu2")
    assert hub.sent <= size(hub) + (1 << 20), "the job went on, and was joined"


def test_a_cable_that_is_out_for_a_while_ends_neither(plays, hub):
    """Neither the play, which hangs on it too, nor the fetch."""
    hub.speed = 1_000_000
    play = plays.start("--limit", "gpu2")
    host = plays.hosts[1]
    come = f"cat {plays.home}/models/.jobs/some--target/*/parts/* | wc -c"
    wait_for(
        "bytes come", lambda: int(host.run(come, check=False).stdout or 0) >= 1 << 20 or play.poll() is not None, 120
    )
    assert play.poll() is None, "it is under way"
    host.link.cut()
    time.sleep(5)  # so long is it out
    host.link.heal()
    print(play.communicate()[0])
    assert play.returncode == 0
    plays.hosts = [host]
    plays.prove()


def test_a_disk_that_fills_up_meanwhile_is_named_and_what_came_is_kept(plays, hub):
    hub.speed = 1_000_000
    host = plays.hosts[0]
    host.run(f"mkdir -p {plays.home}")
    host.fill_disk(plays.home, free=20_000_000)
    said = plays.play("--limit", "gpu1", well=False)
    assert re.search(r"8\.0 MB are to come, and the disk of \S+ has \S+ MB free", re.sub(r"\s+", " ", said))
    assert hub.sent == 0
    host.fill_disk(plays.home, free=100_000_000)
    play = plays.start("--limit", "gpu1")
    come = f"cat {plays.home}/models/.jobs/some--target/*/parts/* | wc -c"  # each of four grows by whole MiB
    wait_for(
        "bytes come", lambda: int(host.run(come, check=False).stdout or 0) >= 1 << 20 or play.poll() is not None, 120
    )
    assert play.poll() is None, "it is under way"
    host.run(f"dd if=/dev/zero of={plays.home}/others bs=64k", check=False)  # until nothing more fits
    said = re.sub(r"\s+", " ", play.communicate()[0])
    print(said)
    assert "models is full. Free some space" in said
    host.fill_disk(plays.home, free=100_000_000)
    plays.play("--limit", "gpu1")
    assert max(asked.start for asked in hub.asked) >= 1 << 20
    plays.hosts = [host]
    plays.prove()


@pytest.mark.long
@pytest.mark.parametrize("speed", [0, 20_000_000], ids=["as fast as it goes", "a line of 20 MB a second"])
@pytest.mark.parametrize("site", ["", "here"], ids=["each for itself", "once for the site"])
def test_measured(plays, hub, site, speed):
    """Figures: 200 MB for six hosts."""
    hub.add("some/target", model(200_000_000))
    plays.variables["vllm_models_target"] = plays.wish("target")
    plays.hosts = plays.fleet.hosts
    hub.speed = speed
    began = time.monotonic()
    plays.play(vllm_models_site=site)
    seconds = time.monotonic() - began
    plays.prove()
    said = f"{site or 'alone'}, line {speed // 10**6 or 'unlimited'} MB/s: {hub.sent / 1e6:.1f} MB left the hub, {seconds:.1f} s"
    print(said, f"load {os.getloadavg()[0]:.1f}")
    assert hub.sent == size(hub) * (1 if site else HOSTS)

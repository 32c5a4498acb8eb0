"""The order in which the hosts of a deployment stop, start and wait, by the roles themselves over two hosts.

The modules are doubles that write down how they are called, and fail where a file of the host says so: no engine can be had to fail at just
these moments. What the real ones do with real hosts is in tests/fleet/test_deployment.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
MODULE = """
import os
from ansible.module_utils.basic import AnsibleModule

ANY = {name: {"type": "raw"} for name in %r}
module = AnsibleModule(ANY, supports_check_mode=True)
p = module.params
home = p["instance"] or os.path.dirname(os.path.dirname(p["pidfile"]))


def told(what):
    with open(home + "/told", "a") as f:
        f.write(what + "\\n")


def fails(when):
    return not module.check_mode and os.path.exists(home + "/fails-" + when)


"""
PROCESS = """
state, runs = p["state"], os.path.exists(home + "/runs")
if not module.check_mode:
    told(state)
if fails(state):
    module.fail_json(msg="It can't be " + state + ". Nothing was stopped or started.")
launched = state == "restarted" or state == "started" and not runs
if not module.check_mode and (launched or state == "stopped" and runs):
    (open(home + "/runs", "w").close if launched else lambda: os.unlink(home + "/runs"))()
module.exit_json(changed=launched, launched=launched, pid=None if state == "stopped" else 7, left=[], log="/l", mark={})
"""
WAIT = """
told("waits" + (" for the API" if p["probe"] else ""))
if fails("waiting"):
    module.fail_json(msg="Cause: it broke", verdict="failed", cause={"text": "it broke", "kind": "config"})
module.exit_json(verdict="pending" if p["timeout"] == 0 else "ready", facts={})
"""
PEERS = """
me = p["peers"][int(p["rank"])]
if fails("meeting"):
    module.fail_json(msg="It meets nobody.")
module.exit_json(address=me["address"], interface="eth0", models={path: "d" for path in p["models"]})
"""
ASK = """
told("asked")
if fails("asked"):
    module.fail_json(msg="It gives no token.")
module.exit_json(models=["m"])
"""
OPTIONS = {
    "vllm_process": "state unit unit_text pidfile argv log user instance host port stop_timeout",
    "log_wait": "path mark unit pidfile probe timeout together instance",
    "vllm_peers": "name rank peers port interface instance models timeout pidfile",
    "vllm_instance_info": "instance unit pidfile api_key release generate timeout",
}
BODIES = {"vllm_process": PROCESS, "log_wait": WAIT, "vllm_peers": PEERS, "vllm_instance_info": ASK}
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - block:
        - ansible.builtin.include_role:
            name: llmops.vllm.vllm_serve
            tasks_from: restart
      rescue:
        - ansible.builtin.fail:
            msg: "RESCUED {{ inventory_hostname }}: {{ ansible_failed_result.msg }}"
"""


class Site:
    def __init__(self, place: Path) -> None:
        self.place = place
        ours = place / "ansible_collections/llmops/vllm"
        for part in ("roles", "plugins/filter", "plugins/plugin_utils", "plugins/module_utils", "playbooks"):
            shutil.copytree(CLONE / part, ours / part, ignore=shutil.ignore_patterns("__pycache__", "files"))
        (ours / "plugins/modules").mkdir()
        for name, body in BODIES.items():
            (ours / "plugins/modules" / f"{name}.py").write_text(
                "#!/usr/bin/python\n" + MODULE % (OPTIONS[name].split(),) + body
            )
        for rank, host in enumerate(("gpu1", "gpu2")):
            release = self.home(host) / "releases/r1"
            release.mkdir(parents=True)
            argv = ["/v/bin/vllm", "serve", "/m/t", "--nnodes=2", f"--node-rank={rank}", "--speculative-config={}"]
            content = {
                "id": "r1",
                "url": "" if rank else "http://127.0.0.1:8000",
                "build": {"id": "b", "venv": "/v", "version": "1"},
                "target": {"path": "/m/t"},
                "drafter": {"path": "/m/d"},
                "argv": argv,
                "deployment": {"name": "big", "rank": rank, "hosts": ["gpu1", "gpu2"], "executor": "mp"},
            }
            (release / "release.json").write_text(json.dumps(content))
            (self.home(host) / "current").symlink_to("releases/r1")
            (self.home(host) / "runs").touch()

    def home(self, host: str) -> Path:
        return self.place / host / "instances/default"

    def told(self, host: str) -> list[str]:
        return (self.home(host) / "told").read_text().splitlines()

    def runs(self) -> list[str]:
        return [host for host in ("gpu1", "gpu2") if (self.home(host) / "runs").exists()]

    def play(self, *options: str, **group: str) -> str:
        python = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        places = {"vllm_home": f"{self.place}/{{{{ inventory_hostname }}}}", "vllm_serve_supervisor": "process"}
        hosts = {"gpu1": {"ansible_host": "192.0.2.1"}, "gpu2": {"ansible_host": "192.0.2.2"}}
        big = {"hosts": hosts, "vars": {**python, **places, "vllm_deployment": "big", **group}}
        (self.place / "hosts.json").write_text(json.dumps({"all": {"children": {"big": big}}}))
        (self.place / "play.yml").write_text(PLAY)
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.json", "play.yml", *options],
            cwd=self.place,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
                "ANSIBLE_COLLECTIONS_PATH": str(self.place),
                "ANSIBLE_HOME": str(self.place / "home"),
                "ANSIBLE_NOCOLOR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout, done.stderr)
        self.failed = done.returncode != 0
        return " ".join(done.stdout.split())


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def test_all_are_stopped_before_the_first_starts_and_all_are_waited_for(site):
    site.play()
    assert not site.failed
    assert site.told("gpu1") == ["stopped", "restarted", "waits for the API", "asked"]
    assert site.told("gpu2") == ["stopped", "restarted", "waits"]
    assert site.runs() == ["gpu1", "gpu2"]


def test_in_check_mode_nothing_is_touched(site):
    site.play("--check")
    assert not site.failed
    assert site.runs() == ["gpu1", "gpu2"]


def test_no_other_starts_where_one_can_not_be_stopped(site):
    (site.home("gpu1") / "fails-stopped").touch()
    said = site.play()
    assert "restarted" not in site.told("gpu1") + site.told("gpu2")
    assert "RESCUED gpu2: gpu1 (rank 0): Stop the server and everything that it started: It can't be stopped." in said
    assert site.runs() == ["gpu1"], "which is held by the kernel, say"


def test_the_others_are_stopped_where_one_does_not_start(site):
    (site.home("gpu2") / "fails-restarted").touch()
    said = site.play()
    assert "waits" not in site.told("gpu2")
    for host in ("gpu1", "gpu2"):
        assert f"RESCUED {host}: gpu2 (rank 1): Run the release: It can't be restarted." in said
    assert "Nothing was stopped or started" not in said.partition("RESCUED")[2]
    assert site.runs() == []


@pytest.mark.parametrize("host", ["gpu1", "gpu2"])
def test_a_cause_in_one_log_ends_all(site, host):
    (site.home(host) / "fails-waiting").touch()
    said = site.play()
    rank = int(host == "gpu2")
    assert said.count(f"{host} (rank {rank}): Cause: it broke") >= 2
    assert "asked" not in site.told("gpu1") or host == "gpu2"
    assert site.runs() == []


def test_a_head_that_gives_no_token_ends_all(site):
    (site.home("gpu1") / "fails-asked").touch()
    said = site.play()
    assert "RESCUED gpu2: gpu1 (rank 0): It gives no token." in said
    assert site.told("gpu2")[-2:] == ["waits", "stopped"], "its log is looked into as well"
    assert site.runs() == []


def test_what_the_release_says_of_the_head_goes_before_the_inventory(site):
    """Else nobody could go back after another head was chosen."""
    site.play(vllm_deployment_head="gpu2")
    assert not site.failed
    assert site.told("gpu1") == ["stopped", "restarted", "waits for the API", "asked"]


def test_one_that_does_not_meet_the_others_stops_nobody(site):
    (site.home("gpu2") / "fails-meeting").touch()
    said = site.play()
    assert "gpu2 has not come as far as this: see above." in said
    assert not any((site.home(host) / "told").exists() for host in ("gpu1", "gpu2"))

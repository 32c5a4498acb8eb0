"""The playbooks as AWX runs them: by ansible-runner, out of a project of thin playbooks, with secrets among the extra variables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import machine
import plays
import pytest

PROJECT = machine.CLONE / "docs/awx/project"
SECRETS = {"vllm_models_token": "hf_aTokenThatNobodyMaySee", "vllm_serve_api_key": "sk-aKeyThatNobodyMaySee"}
# What has nothing to do on a host without a server says so, and fails.
FAILS = {
    "restart": "has no current release under",
    "rollback": "There is nothing to go back to",
    "adopt": "one has to be meant, by vllm_adopt_port",
}


class Job:
    """What a run left in its artifacts."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.code = int((place / "rc").read_text())
        self.status = (place / "status").read_text()
        self.stdout = (place / "stdout").read_text()
        files = (place / "job_events").glob("*-*.json")
        self.events = sorted((json.loads(file.read_text()) for file in files), key=lambda event: event["counter"])

    def of(self, kind: str) -> list[dict]:
        return [event["event_data"] for event in self.events if event["event"] == kind]

    @property
    def hosts(self) -> set[str]:
        kinds = ("runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable")
        return {data["host"] for kind in kinds for data in self.of(kind)}


@pytest.fixture
def job(collections, tmp_path):
    """Runs a playbook of the project on these hosts."""
    bin = machine.venv("awx", machine.here(), ["requirements/awx.txt"])

    def run(name: str, *words: str, hosts: tuple[str, ...] = ("one",), **variables: object) -> Job:
        place = tmp_path / "job"
        shutil.copytree(PROJECT, place / "project")
        plays.inventory(place / "inventory", {host: sys.executable for host in hosts})
        (place / "env").mkdir()
        (place / "env/extravars").write_text(json.dumps({**SECRETS, **variables}))
        done = subprocess.run(
            [str(bin / "ansible-runner"), "run", str(place), "-p", f"{name}.yml", "--ident", "1", *words],
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
                "ANSIBLE_COLLECTIONS_PATH": str(collections),
                "ANSIBLE_HOME": str(tmp_path / "home"),
                "PATH": f"{bin}:{os.environ['PATH']}",
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        print(done.stdout)
        job = Job(place / "artifacts/1")
        assert done.returncode == job.code
        for file in job.place.rglob("*"):
            if file.is_file():
                assert [secret for secret in SECRETS.values() if secret.encode() in file.read_bytes()] == [], file
        return job

    return run


@pytest.mark.parametrize("name", plays.PLAYBOOKS)
def test_a_playbook_in_check_mode(job, name):
    # At that port there is none, whatever runs here. Routers are a group of their own, which this inventory has not.
    ended = job(
        name, "--cmdline=--check --diff", vllm_adopt_port=1, **({"vllm_hosts": "one"} if name == "router" else {})
    )
    well = name not in FAILS
    assert (ended.code, ended.status) == ((0, "successful") if well else (2, "failed"))
    assert ended.hosts - {"localhost"} == {"one"}
    (stats,) = ended.of("playbook_on_stats")
    assert stats["failures"] == ({} if well else {"one": 1})
    if not well:
        assert FAILS[name] in " ".join(str(data["res"].get("msg")) for data in ended.of("runner_on_failed"))


def test_a_limit_leaves_the_others_alone(job):
    ended = job("status", "--limit", "two", hosts=("one", "two", "three"))
    assert ended.code == 0
    assert ended.hosts == {"two"}


@pytest.mark.parametrize("slice", [0, 1])
def test_a_slice_examines_its_hosts(job, slice):
    """AWX gives each slice an inventory of every n-th host by name, and nothing of the others."""
    hosts = tuple(sorted(["one", "two", "three", "four", "five"])[slice::2])
    ended = job("doctor", hosts=hosts)
    assert ended.code == 0
    assert ended.hosts == set(hosts)


def test_what_a_survey_gives_is_text(job):
    """Batches as a line, and a number that AWX made of one."""
    hosts = ("one", "two", "three")
    answers = {"vllm_rollout_batches": "1,100%", "vllm_verify_acceptance_length": 3.0}
    ended = job("rollout", "--cmdline=--check", hosts=hosts, **answers)
    assert ended.code == 0
    starts = [data["name"] for data in ended.of("playbook_on_play_start")]
    assert starts[1:] == ["Roll out"] * 2, "after the one that makes the hosts known"
    assert ended.hosts == set(hosts)

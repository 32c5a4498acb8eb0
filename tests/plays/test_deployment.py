"""Which places in the inventory the role vllm_deployment refuses, by ansible-playbook itself. Where hosts really meet: tests/fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
PLAY = """
- hosts: all
  gather_facts: false
  serial: "{{ batch | default(9) }}"
  tasks:
    - name: Break
      ansible.builtin.fail:
      when: broken is defined
    - ansible.builtin.include_role:
        name: llmops.vllm.vllm_deployment
"""
BIG = {"vllm_deployment": "big"}


def told(place: Path, hosts: dict, group: dict, *options: str) -> str:
    inventory = {"all": {"children": {"big": {"hosts": hosts, "vars": group}, "others": {"hosts": {"gpu9": None}}}}}
    (place / "hosts.json").write_text(json.dumps(inventory))
    (place / "play.yml").write_text(PLAY)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ansible.cli.playbook",
            "-i",
            place / "hosts.json",
            place / "play.yml",
            "-c",
            "local",
            "-l",
            "big",
            *options,
        ],
        cwd=CLONE,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
            "VLLM_REPORT_DIRECTORY": str(place / "reports"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("hosts", "group", "options", "said"),
    [
        ({"gpu1": {}, "gpu2": {}}, {"vllm_deployment": "bgi"}, (), "gpu1 is not in a group of that name"),
        ({"gpu1": {}, "gpu2": {}}, {"vllm_deployment": "others"}, (), "gpu1 is not in a group of that name"),
        ({"gpu1": {}}, BIG, (), "The group big has one host, which needs no deployment"),
        ({"gpu1": {}, "gpu2": {}}, {**BIG, "vllm_deployment_head": "gpu9"}, (), "vllm_deployment_head is gpu9, which is not in the group big"),
        ({"gpu1": {}, "gpu2": {"vllm_deployment_port": 5}}, BIG, (), "vllm_deployment_port is another one for gpu2 than for gpu1"),
        ({"gpu1": {}, "gpu2": {}}, BIG, ("-l", "gpu1"), "gpu2 has no part in this run"),
        ({"gpu1": {}, "gpu2": {}}, BIG, ("-e", "batch=1"), "gpu2 has no part in this run"),
        ({"gpu1": {}, "gpu2": {"broken": True}}, BIG, (), "gpu2 failed before, or is out of reach"),
        ({"gpu1": {}, "gpu2": {}}, BIG, ("-f", "1"), "All 2 hosts of deployments in this run have to be looked at at once, and Ansible does so with 1 only"),
        ({"gpu1": {}, "gpu2": {}}, {**BIG, "vllm_deployment_executor": "mpi"}, (), "must be one of: mp, ray"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_be_is_refused(hosts, group, options, said, tmp_path):
    found = told(tmp_path, hosts, group, *options)
    assert said in found, found
    assert "See that its hosts reach each other" not in found


@pytest.mark.parametrize("name", ["vllm_deployment_ray_token", "vllm_serve_api_key"])
def test_a_secret_of_ray_that_differs_is_refused_and_not_told(name, tmp_path):
    hosts = {"gpu1": {}, "gpu2": {name: "canary-2"}}
    found = told(tmp_path, hosts, {**BIG, name: "canary-1", "vllm_deployment_executor": "ray"}, "-vvv")
    assert f"{name} is another one for gpu2 than for gpu1" in found
    assert "canary" not in found

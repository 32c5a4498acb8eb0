"""What a run of vllm_build with secrets leaves where others can read, and that it doesn't follow where a server's user leads."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[2]
WHEEL = "http://me:{0}password@127.0.0.1:1/vllm-0.32.0-py3-none-any.whl?sig={0}signature"
SECRETS = {
    "vllm_build_wheel": WHEEL.format("canary-"),
    "vllm_build_env": {"PIP_RETRIES": "0", "TOKEN": "canary-token", "PIN": "1234"},
    "vllm_build_index_url": "https://me:canary-password@127.0.0.1:1/simple",
}
HOSTS = {
    "secret": SECRETS,
    "resigned": {**SECRETS, "vllm_build_wheel": WHEEL.format("other-")},
    "pin": {**SECRETS, "vllm_build_env": {**SECRETS["vllm_build_env"], "PIN": "1235"}},
    "link": {"vllm_build_mode": "wheelhouse"},  # where nothing is, so that a run which goes astray ends soon
}
# One host installs, one can't even begin, and of the others only the names count.
PLAY = """
- hosts: all
  gather_facts: false
  pre_tasks:
    - ansible.builtin.debug:
        msg: "NAME {{ vllm_build_id }} {{ vllm_build_wanted.environment }}"
    - ansible.builtin.meta: end_host
      when: inventory_hostname in ['resigned', 'pin']
    - ansible.builtin.file:
        state: directory
        path: "{{ vllm_home }}/elsewhere"
        mode: "0700"
    - ansible.builtin.file:
        state: directory
        path: "{{ vllm_home }}/builds"
        mode: "0755"
    - ansible.builtin.file:
        state: link
        src: "{{ vllm_home }}/elsewhere"
        path: "{{ vllm_home }}/builds/{{ vllm_build_id }}"
      when: inventory_hostname == 'link'
  roles:
    - role: llmops.vllm.vllm_build
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def said(home):
    (home / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": HOSTS}}))
    (home / "play.yml").write_text(PLAY)
    extra = json.dumps(
        {"vllm_home": str(home / "vllm"), "vllm_user": getpass.getuser(), "vllm_build_python": sys.executable}
    )
    program = [sys.executable, "-m", "ansible.cli.playbook"]
    done = subprocess.run(
        [*program, "-vvvv", "--diff", "-c", "local", "-i", home / "hosts.yml", "-e", extra, home / "play.yml"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=CLONE,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_NOCOLOR": "1",
        },
        check=False,
    )
    print(done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def names(said):
    """Of each host the build's id and the digest of its environment."""
    found = re.findall(r"^ok: \[(\w+)\] =>[^N]*NAME (\S+) ([^\s\"']*)", said, re.MULTILINE)
    return {host: (name, digest) for host, name, digest in found}


def test_another_signature_is_the_same_build(names):
    assert names["secret"] == names["resigned"]


def test_another_environment_is_another_build_and_no_quick_guess(names):
    assert names["secret"][0] != names["pin"][0]
    assert names["secret"][1] != names["pin"][1]
    text = json.dumps(SECRETS["vllm_build_env"], sort_keys=True)
    assert names["secret"][1] not in (
        hashlib.new(kind, text.encode()).hexdigest() for kind in ("md5", "sha1", "sha256")
    )


def test_a_run_tells_no_secret(said, home, names):
    assert "FAILED: no way through the network" in said
    assert "canary-" not in said
    builds = home / "vllm/builds" / names["secret"][0]
    holding = {
        p.name: p.stat().st_mode & 0o777 for p in builds.rglob("*") if p.is_file() and b"canary-" in p.read_bytes()
    }
    assert holding == {"request.json": 0o600}
    assert (home / "vllm/cache").stat().st_mode & 0o777 == 0o700, "tools keep whole addresses there"


def test_a_link_in_the_place_of_a_build_is_refused(said, home, names):
    assert f"/builds/{names['link'][0]} already exists as a link" in " ".join(said.split())
    assert (home / "vllm/elsewhere").stat().st_mode & 0o777 == 0o700
    assert not list((home / "vllm/elsewhere").iterdir())

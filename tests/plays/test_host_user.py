"""Whether vllm_host would make a user, asked of the role in check mode on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
PLAY = "- {hosts: localhost, gather_facts: false, roles: [llmops.vllm.vllm_host]}\n"


def play(tmp_path, *options, **variables):
    file = tmp_path / "play.yml"
    file.write_text(PLAY)
    extra = json.dumps({"vllm_home": str(tmp_path / "home"), "vllm_host_create_user": True, **variables})
    command = [
        sys.executable,
        "-m",
        "ansible.cli.playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        file,
        "-e",
        extra,
        *options,
    ]
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_NOCOLOR": "1",
    }
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=CLONE, check=False).stdout


@pytest.mark.parametrize(("user", "made"), [("root", False), ("nobody", False), ("vllm-no-such-user", True)])
def test_only_a_missing_user_is_made(tmp_path, user, made):
    said = play(tmp_path, "--check", vllm_user=user)
    task = said.partition("Make the user]")[2].partition("TASK [")[0]
    assert task, said
    assert ("changed: [localhost]" in task) == made
    assert ("skipping: [localhost]" in task) != made


def test_a_user_who_is_not_there_and_must_not_be_made_is_named(tmp_path):
    said = " ".join(play(tmp_path, vllm_user="vllm-no-such-user", vllm_host_create_user=False).split())
    assert "There is no user vllm-no-such-user on localhost, and vllm_host_create_user is false." in said
    assert not (tmp_path / "home").exists()


def test_a_home_that_can_not_be_is_named_with_a_remedy(tmp_path):
    (tmp_path / "home").touch()
    said = " ".join(play(tmp_path, vllm_user="nobody").split())
    assert f"{tmp_path}/home can't be had on localhost" in said
    assert "name another place by vllm_home." in said

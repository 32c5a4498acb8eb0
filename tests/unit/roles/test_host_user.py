"""Whether vllm_host would make a user, asked of the role in check mode on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]
PLAY = "- {hosts: localhost, gather_facts: false, roles: [llmops.vllm.vllm_host]}\n"


@pytest.mark.parametrize(("user", "made"), [("root", False), ("nobody", False), ("vllm-no-such-user", True)])
def test_only_a_missing_user_is_made(tmp_path, user, made):
    play = tmp_path / "play.yml"
    play.write_text(PLAY)
    extra = json.dumps({"vllm_user": user, "vllm_home": str(tmp_path / "home"), "vllm_host_create_user": True})
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        play,
        "-e",
        extra,
        "--check",
    ]
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_NOCOLOR": "1",
    }
    said = subprocess.run(command, capture_output=True, text=True, env=env, cwd=CLONE, check=False).stdout
    task = said.partition("Make the user]")[2].partition("TASK [")[0]
    assert task, said
    assert ("changed: [localhost]" in task) == made
    assert ("skipping: [localhost]" in task) != made

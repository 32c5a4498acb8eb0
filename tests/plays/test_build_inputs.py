"""What vllm_build refuses before it touches the host, and how it reads what an operator says."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[2]
REFUSED = {
    "relative": ({"vllm_build_mode": "existing", "vllm_build_venv": "venv"}, 'vllm_build_venv is "venv"'),
    "nowhere": ({"vllm_build_mode": "existing"}, 'vllm_build_venv is ""'),
    "missing": ({"vllm_build_mode": "existing", "vllm_build_venv": "/nowhere"}, "No vLLM is installed in /nowhere"),
    "branch": ({"vllm_build_mode": "git", "vllm_build_commit": "main"}, '"main" is no commit'),
    "short": ({"vllm_build_mode": "git", "vllm_build_commit": "a8062413a"}, '"a8062413a" is no commit'),
    "pick": ({"vllm_build_mode": "git", "vllm_build_commit": "0" * 40, "vllm_build_picks": ["HEAD"]}, '"HEAD" is no'),
    "mode": ({"vllm_build_mode": "source"}, "value of vllm_build_mode must be one of"),
}
PLAY = """
- hosts: all
  gather_facts: false
  pre_tasks:
    - ansible.builtin.debug:
        msg: "MEANS {{ vllm_build_means | to_json }}"
      when: inventory_hostname == 'text'
  roles:
    - role: llmops.vllm.vllm_build
      when: inventory_hostname != 'text'
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """All hosts are asked in one run; nothing of it may change this machine."""
    home = tmp_path_factory.mktemp("inputs")
    hosts = {name: variables for name, (variables, _words) in REFUSED.items()}
    # As `-e vllm_build_offline=false` says it.
    hosts["text"] = {"vllm_build_offline": "false", "vllm_build_keep": "5", "vllm_build_max_jobs": "2"}
    (home / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (home / "play.yml").write_text(PLAY)
    extra = json.dumps({"vllm_home": str(home / "vllm"), "vllm_user": getpass.getuser()})
    program = [sys.executable, "-m", "ansible.cli.playbook"]
    done = subprocess.run(
        [*program, "--check", "-c", "local", "-i", home / "hosts.yml", "-e", extra, home / "play.yml"],
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
    found = re.findall(r"^(?:fatal|ok): \[(\w+)\](.*?)(?=^\S|\Z)", done.stdout, re.MULTILINE | re.DOTALL)
    return {name: " ".join(words.split()) for name, words in found}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(said, name):
    assert said[name].startswith(": FAILED!")
    assert REFUSED[name][1] in said[name]


def test_a_text_is_taken_for_what_it_says(said):
    means = json.loads(re.search(r"MEANS (\{.*\})", said["text"])[1])
    assert (means["offline"], means["keep"], means["max_jobs"]) == (False, 5, 2)

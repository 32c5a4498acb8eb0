"""vllm_host waits for clean GPUs, with a program in nvidia-smi's place that says what a host with two of them says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
SAID = CLONE / "tests/unit/host/nvidia-smi/two-gpus"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: llmops.vllm.vllm_host}
"""


@pytest.fixture
def play(tmp_path):
    def run(smi: str, **variables):
        tool = tmp_path / "bin/nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\n{smi}\n")
        tool.chmod(0o755)
        (tmp_path / "play.yml").write_text(PLAY)
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        extra = {"vllm_home": str(tmp_path / "home"), "vllm_user": user, "vllm_host_create_user": False, **variables}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ansible.cli.playbook",
                *("-i", "localhost,", "-c", "local", tmp_path / "play.yml", "-e", json.dumps(extra)),
            ],
            capture_output=True,
            text=True,
            cwd=CLONE,
            env={
                **os.environ,
                "PATH": f"{tool.parent}:{os.environ['PATH']}",
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            },
            check=False,
        )
        return done.returncode, " ".join(done.stdout.split())

    return run


def says(processes: str = "processes") -> str:
    return (
        f'case "$1" in --query-gpu=*) sed s/130244/40/ "{SAID}/gpus" ;; '
        f'--query-compute-apps=*) cat "{SAID}/{processes}" ;; -L) cat "{SAID}/list" ;; esac'
    )


def test_who_is_in_the_way_is_named(play):
    code, said = play(says(), vllm_host_gpu_timeout=1)
    assert code != 0
    assert "GPU 0: pid 4711 (VLLM::Worker_TP0) uses 130230 MiB; GPU 0: pid 812" in said
    assert "Nothing was touched." in said


def test_what_uses_other_gpus_than_the_servers_is_let_be(play):
    assert play(says(), vllm_host_gpu_timeout=1, vllm_serve_env={"CUDA_VISIBLE_DEVICES": 1})[0] == 0
    assert play(says(), vllm_host_gpu_timeout=1, vllm_serve_env={"CUDA_VISIBLE_DEVICES": "0"})[0] != 0


def test_it_waits_until_they_are_gone(play, tmp_path):
    """The first look finds somebody, the next one nobody."""
    once = f'[ -e "{tmp_path}/looked" ] && apps=/dev/null || apps="{SAID}/processes"'
    looked = f'--query-compute-apps=*) cat "$apps"; touch "{tmp_path}/looked" ;;'
    smi = (
        f'{once}\ncase "$1" in --query-gpu=*) sed s/130244/40/ "{SAID}/gpus" ;; {looked} -L) cat "{SAID}/list" ;; esac'
    )
    code, said = play(smi, vllm_host_gpu_timeout=10)
    assert code == 0, said


def test_a_driver_in_trouble_is_said(play):
    code, said = play(
        "echo Failed to initialize NVML: Driver/library version mismatch; exit 18", vllm_host_gpu_timeout=1
    )
    assert code != 0
    assert "ended with 18: Failed to initialize NVML: Driver/library version mismatch" in said


def test_nobody_looks_unless_asked(play):
    assert play("exit 9")[0] == 0

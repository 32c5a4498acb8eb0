"""The launch script, rendered by Ansible and run for real, with a program in vLLM's place that says what it was given."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]
# Stands in for vLLM, since the question is what arrives there, not what it does with it.
ECHO = f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv, dict(os.environ)]))\n"
PLAY = """
- hosts: localhost
  gather_facts: false
  vars: {variables}
  tasks:
    - ansible.builtin.include_vars: {clone}/roles/vllm_serve/defaults/main.yml
    - ansible.builtin.include_vars: {clone}/roles/vllm_serve/vars/main.yml
    - llmops.vllm.vllm_release:
        instance: "{{{{ vllm_serve_directory }}}}"
        content: "{{{{ vllm_serve_content }}}}"
        launcher: "{{{{ lookup('ansible.builtin.template', '{clone}/roles/vllm_serve/templates/launch.py.j2') }}}}"
        environment: "{{{{ vllm_serve_environment | to_json }}}}"
        user: "{{{{ vllm_user }}}}"
"""


@pytest.fixture
def launch(tmp_path):
    home = tmp_path / "a höme with 'quotes' and \"more\""
    vllm = home / "venv/bin/vllm"
    vllm.parent.mkdir(parents=True)
    vllm.write_text(ECHO)
    vllm.chmod(0o755)
    variables = {
        "vllm_home": str(home),
        "vllm_instance": "default",
        "vllm_user": getpass.getuser(),
        "vllm_deployment": "",
        "role_path": str(CLONE / "roles/vllm_serve"),
        "vllm_build_result": {"id": "x", "venv": str(home / "venv"), "version": "0.32.0"},
        "vllm_models_result": {"target": {"path": str(home / "ziel 目标")}},
        "vllm_drafter_result": {"path": str(home / "draft $HOME `id`"), "num_speculative_tokens": 7},
    }

    def render(**extra):
        play = tmp_path / "play.yml"
        play.write_text(PLAY.format(clone=CLONE, variables=json.dumps(variables)))
        # Over the include_vars above, extra variables win, as the inventory wins over a role's defaults.
        command = [
            sys.executable,
            "-m",
            "ansible.cli.playbook",
            "-i",
            "localhost,",
            "-c",
            "local",
            play,
            "-e",
            json.dumps(extra),
        ]
        env = {**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=CLONE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        noise = {
            "VLLM_USE_V1": "0",
            "PYTHONPATH": "/nowhere",
            "VIRTUAL_ENV": "/nowhere",
            "KEEP": "me",
            "USER": "somebody",
            "GONE": "1",
            "HF_HOME": "/x",
        }
        (script,) = home.glob("instances/default/releases/*/launch.py")
        said = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env={**os.environ, **noise}, check=False
        )
        assert said.returncode == 0, said.stderr
        return home, *json.loads(said.stdout)

    return render


def test_paths_with_anything_in_them_arrive_whole(launch):
    home, argv, _env = launch()
    assert argv[:3] == [str(home / "venv/bin/vllm"), "serve", str(home / "ziel 目标")]
    (speculative,) = [a for a in argv if a.startswith("--speculative-config=")]
    assert json.loads(speculative.partition("=")[2]) == {
        "method": "dflash",
        "model": str(home / "draft $HOME `id`"),
        "num_speculative_tokens": 7,
    }


def test_only_the_release_decides_what_vllm_sees(launch):
    _home, _argv, env = launch(
        vllm_serve_env={"VLLM_LOGGING_LEVEL": "DEBUG", "GONE": None}, vllm_serve_api_key="canary"
    )
    assert {k: v for k, v in env.items() if k.startswith("VLLM_")} == {
        "VLLM_API_KEY": "canary",
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "VLLM_NO_USAGE_STATS": "1",
    }
    assert env["HF_HUB_OFFLINE"] == "1"
    assert {env["USER"], env["LOGNAME"]} == {getpass.getuser()}
    assert "TORCHINDUCTOR_CACHE_DIR" not in env, "no compiler takes such a path"
    assert env["KEEP"] == "me"
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "GONE", "HF_HOME"} & set(env)


def test_only_the_environment_file_holds_the_key(launch):
    home, argv, _env = launch(vllm_serve_api_key="canary")
    assert "canary" not in " ".join(argv)
    assert [path.name for path in home.rglob("*") if path.is_file() and "canary" in path.read_text()] == ["env.json"]


def test_more_patience_within_an_hour_is_the_same_release(launch):
    home, _argv, _env = launch(vllm_serve_timeout=1800)
    launch(vllm_serve_timeout="3000")  # as -e gives it
    assert len(list(home.glob("instances/default/releases/*"))) == 1

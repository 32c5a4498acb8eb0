"""A variable that is misspelt would be of no effect, and a specification lets it pass: it is refused, with the name that may be meant."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.llmops.vllm.plugins.plugin_utils import variables

CLONE = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "meant"),
    {
        "vllm_serve_prot": "vllm_serve_port",
        "vllm_biuld_mode": "vllm_build_mode",
        "vllm_hme": "vllm_home",
        "vllm_usr": "vllm_user",
        "vllm_serve_apikey": "vllm_serve_api_key",
        "vllm_rollout_batch": "vllm_rollout_batches",
        "vllm_doctor_failon": "vllm_doctor_fail_on",
        "vllm_verify_acceptence_length": "vllm_verify_acceptance_length",
        "vllm_build_verison": "vllm_build_version",
        "vllm_instanse": "vllm_instance",
        "vllm_userr": "vllm_user",
        "vllm_modle_token": "vllm_models_token",
    }.items(),
)
def test_what_may_be_meant_is_named(name, meant):
    assert variables.unknown([name]) == {name: meant}


@pytest.mark.parametrize(
    "name",
    [
        "vllm_image",
        "vllm_version",
        "vllm_fleet_port",
        "my_vllm_serve_prot",
        "vault_token",
        "vllm_name",
        "vllm_used",
        "vllm_users",
        "vllm_user2",
        "vllm_user_id",
        "vllm_host_ip",
        "vllm_host_name",
        "vllm_homes",
        "vllm_instances",
        "vllm_instance_id",
        "vllm_models_dir",
        "vllm_serve_x",
        "vllm_serve_hosts",
        "vllm_serve_home",
        "vllm_serve_cost",
        "vllm_build_name",
        "vllm_build_model",
        "vllm_build_patches_dir",
        "vllm_verify_min_tokens",
    ],
)
def test_what_is_another_name_is_its_owners(name):
    assert variables.unknown([name]) == {}


def test_nothing_is_suggested_that_is_not_for_people():
    assert {"vllm_serve_port", "vllm_hosts", "vllm_compare_rounds", "vllm_home"} <= variables.public()
    assert not {"vllm_serve", "vllm_models_within", "vllm_serve_booted"} & variables.public()


def test_every_name_that_is_told_of_is_known():
    """In the inventories and the texts."""
    files = [CLONE / "README.md", *(file for place in ("docs", "inventories") for file in (CLONE / place).rglob("*"))]
    texts = {file: file.read_text(errors="replace") for file in files if file.is_file()}
    given = {found: name for name, text in texts.items() for found in variables.OURS.findall(text)}
    assert "vllm_serve_port" in given
    assert {name: given[name] for name in variables.unknown(given)} == {}


@pytest.mark.parametrize("role", sorted((CLONE / "roles").iterdir()), ids=lambda role: role.name)
def test_every_name_carries_that_of_its_role(role):
    shared = {
        "vllm_home",
        "vllm_user",
        "vllm_instance",
        "vllm_deployment",
        "vllm_refused",
    }  # of the role vllm itself, which all depend on
    for file in [*role.glob("defaults/*.yml"), *role.glob("vars/*.yml")]:
        for name in yaml.safe_load(file.read_text()):
            assert name.startswith(f"{role.name}_")
            assert role.name != "vllm" or name in shared
    # Of a task's own names too, which would be visible to all roles after it.
    text = "\n".join(file.read_text() for file in role.glob("tasks/*.yml"))
    for name in re.findall(r"^\s*register: (\w+)", text, re.MULTILINE):
        assert name.startswith(f"{role.name}_")


def test_a_play_refuses_it_before_anything_is_done(tmp_path):
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "vllm_hme": "/srv/vllm"}
    group = {"vllm_serve_prot": 8001, "vllm_home": str(tmp_path / "home"), "vllm_my_own": 1, "vllm_host_ip": "10.0.0.1"}
    inventory = {"all": {"hosts": {"one": host}, "vars": group}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    command = [
        sys.executable,
        "-m",
        "ansible.cli.playbook",
        "-i",
        str(tmp_path / "hosts.json"),
        "playbooks/site.yml",
        "-e",
        "vllm_models_tokne=x",
    ]
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "VLLM_REPORT_DIRECTORY": str(tmp_path / "reports"),
    }
    done = subprocess.run(command, cwd=CLONE, env=env, capture_output=True, text=True, check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout + done.stderr
    for name, meant in {
        "vllm_hme": "home",
        "vllm_serve_prot": "serve_port",
        "vllm_models_tokne": "models_token",
    }.items():
        assert f"There is no variable {name}. Is vllm_{meant} meant?" in said
    assert "vllm_my_own" not in said
    assert "vllm_host_ip" not in said
    assert "Make the directory" not in said
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("playbook", "name"), [("doctor", "vllm_doctor_failon"), ("adopt", "vllm_adopt_too")])
def test_a_playbook_without_roles_refuses_one_of_its_own(playbook, name, tmp_path):
    """A scheduled job that should turn red would stay green for ever."""
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "localhost,", "-c", "local"]
    command += [f"playbooks/{playbook}.yml", "-e", f"{name}=error vllm_of_others=1"]
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
        "VLLM_REPORT_DIRECTORY": str(tmp_path / "reports"),
    }
    done = subprocess.run(command, cwd=CLONE, env=env, capture_output=True, text=True, check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"There is no variable {name}. Is vllm_" in said
    assert "TASK [Look]" not in said

"""The launch script, rendered by Ansible and run for real, with a program in vLLM's place that says what it was given."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
# Stands in for vLLM, since the question is what arrives there, not what it does with it.
ECHO = f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv, dict(os.environ)]))\n"
# Stands in for `ray start --block`: at a head it says that it is up, as Ray does, and stays.
RAY = f"""#!{sys.executable}
import json, os, sys, time
words = dict(word.partition("=")[::2] for word in sys.argv[1:])
print(json.dumps([sys.argv, dict(os.environ)]), flush=True)
if "--head" in words:
    os.makedirs(words["--temp-dir"])
    with open(words["--temp-dir"] + "/pid", "w") as f:
        f.write(str(os.getpid()))
    if "FAILS" in os.environ:
        sys.exit(3)
    os.mknod(words["--temp-dir"] + "/ray_current_cluster")
    time.sleep(600)
"""
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

    ray = vllm.with_name("ray")
    ray.write_text(RAY)
    ray.chmod(0o755)

    def render(well=True, **extra):
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
            "RAY_TMPDIR": "/x",
        }
        (script,) = home.glob("instances/default/releases/*/launch.py")
        said = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env={**os.environ, **noise}, check=False
        )
        assert (said.returncode == 0) == well, said.stderr
        return (
            home,
            *[word for line in said.stdout.splitlines() for word in json.loads(line)],
            *([] if well else [said.stderr]),
        )

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


SIZES = {"tensor-parallel-size": 4}


def seat(rank: int, executor: str = "ray", port: int = 29501) -> dict:
    """What vllm_deployment hands on, as far as a launch is made of it."""
    ray = {"block": True, "node-ip-address": "127.0.0.1"}
    ray.update({"address": f"127.0.0.1:{port}"} if rank else {"head": True, "port": port, "include-dashboard": "false"})
    place = {"name": "big", "rank": rank, "hosts": ["gpu1", "gpu2"], "executor": executor, "models": {}}
    place.update(
        args={"distributed-executor-backend": executor}, environment={"RAY_ADDRESS": f"127.0.0.1:{port}"}, ray=ray
    )
    return {
        "vllm_deployment": "big",
        "vllm_deployment_result": place,
        "vllm_serve_args": SIZES,
        "vllm_serve_checked": {"workers": 2},
    }


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_nothing_of_ray_is_in_a_launch_without_it(launch):
    home, _argv, env = launch()
    (script,) = home.glob("instances/default/releases/*/launch.py")
    assert not re.search(r"\bRAY|\bray\b", script.read_text())
    assert env["RAY_TMPDIR"] == "/x"


def test_a_head_starts_ray_and_becomes_vllm_and_ray_ends_with_it(launch):
    home, ray, of_ray, argv, env = launch(**seat(0), vllm_serve_api_key="canary")
    assert argv[:2] == [str(home / "venv/bin/vllm"), "serve"]
    assert "--distributed-executor-backend=ray" in argv
    assert ray[:2] == [str(home / "venv/bin/ray"), "start"]
    directory = home / f"instances/default/cache/{getpass.getuser()}/ray"
    assert {"--head", "--block", "--port=29501", "--num-gpus=2", f"--temp-dir={directory}"} < set(ray)
    (port,) = [word.partition("=")[2] for word in ray if word.startswith("--ray-client-server-port=")]
    assert int(port) > 1023
    assert of_ray == env
    assert "RAY_TMPDIR" not in env
    assert ended(int((directory / "pid").read_text()))


def test_a_head_whose_ray_does_not_come_up_ends(launch):
    _home, _ray, _env, said = launch(**seat(0), vllm_serve_api_key="canary", vllm_serve_env={"FAILS": "1"}, well=False)
    assert said.splitlines()[-1] == "Ray ended with 3, before it was up."


def test_a_follower_waits_for_the_head_and_becomes_ray(launch):
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        home, argv, env = launch(**seat(1, port=port), vllm_serve_api_key="canary")
    assert argv[:2] == [str(home / "venv/bin/ray"), "start"]
    assert {"--block", f"--address=127.0.0.1:{port}", "--num-gpus=2"} < set(argv)
    assert "RAY_TMPDIR" not in env
    (release,) = home.glob("instances/default/releases/*/release.json")
    told = json.loads(release.read_text())
    assert (told["argv"], told["url"]) == (argv, "")


def test_the_token_of_ray_is_in_the_environment_alone_and_tells_no_key(launch):
    home, ray, _env, argv, env = launch(**seat(0), vllm_serve_api_key="canary")
    token = env["RAY_AUTH_TOKEN"]
    assert env["RAY_AUTH_MODE"] == "token"
    assert len(token) == 32 and "canary" not in token
    assert token not in " ".join([*ray, *argv])
    assert [path.name for path in home.rglob("*") if path.is_file() and token in path.read_text()] == ["env.json"]


def test_a_token_of_ones_own_wins(launch):
    *_others, env = launch(**seat(0), vllm_serve_api_key="canary", vllm_deployment_ray_token="canary-of-ray")
    assert env["RAY_AUTH_TOKEN"] == "canary-of-ray"

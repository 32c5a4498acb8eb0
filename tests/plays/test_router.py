"""The role vllm_router: what it writes by which variables, and where a replica stands when one of its routers is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[2]
ROLE = CLONE / "roles/vllm_router"
PLAY = [
    {
        "hosts": "gpu1",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.include_vars": f"{ROLE}/defaults/main.yml"},
            {"ansible.builtin.include_vars": f"{ROLE}/vars/main.yml"},
            {
                "ansible.builtin.copy": {
                    "content": "{{ {'config': lookup('ansible.builtin.template', template), 'unit': vllm_router_unit,"
                    " 'metrics': vllm_router_metrics} | to_json }}",
                    "dest": "{{ told }}",
                },
                "vars": {"vllm_router_booted": {"stat": {}}, "template": f"{ROLE}/templates/nginx.conf.j2"},
            },
        ],
    }
]
MODULE = """
from ansible.module_utils.basic import AnsibleModule
names = ("drain", "undrain", "address", "directory", "timeout")
module = AnsibleModule({name: {"type": "str"} for name in names})
with open("%s", "a") as f:
    f.write(f"{'drain' if module.params['drain'] else 'undrain'} at {module.params['directory']}\\n")
if module.params["directory"] == "refuses":
    module.fail_json(msg="it knows nobody")
module.exit_json(changed=True, replicas={})
"""
DRAIN = {"include_role": {"name": "llmops.vllm.vllm_router", "tasks_from": "drain"}}
ROLLOUT = [
    {
        "hosts": "gpu1",
        "gather_facts": False,
        "tasks": [
            {
                "block": [DRAIN, {"debug": {"msg": "STOPPED"}}],
                "rescue": [{"debug": {"msg": "RESCUED by {{ ansible_failed_result.msg }}"}}],
                "always": [{"include_role": {"name": "llmops.vllm.vllm_router", "tasks_from": "undrain"}}],
            }
        ],
    }
]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
GONE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-o ControlMaster=no"}


@pytest.fixture
def play(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def play(tasks: list[dict], routers: dict[str, dict], home: Path = CLONE / ".collections", **extra: object):
        groups = {"vllm": {"hosts": {"gpu1": LOCAL}}, "vllm_router": {"hosts": routers}}
        (tmp_path / "hosts.json").write_text(json.dumps({"all": {"children": groups}}))
        (tmp_path / "play.yml").write_text(yaml.safe_dump(tasks))
        return subprocess.run(
            [
                *(sys.executable, "-m", "ansible.cli.playbook", "-i", tmp_path / "hosts.json", tmp_path / "play.yml"),
                *("-e", json.dumps(extra)),
            ],
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
                "ANSIBLE_COLLECTIONS_PATH": str(home),
                "ANSIBLE_HOME": str(tmp_path / "ansible"),
                "ANSIBLE_NOCOLOR": "1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return play


@pytest.fixture
def rendered(play, tmp_path) -> Callable[..., dict[str, str]]:
    def rendered(**extra: object) -> dict[str, str]:
        done = play(PLAY, {}, told=str(tmp_path / "told.json"), **extra)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads((tmp_path / "told.json").read_text())

    return rendered


@pytest.fixture
def rolled_out(play, tmp_path) -> Callable[..., tuple[str, list[str]]]:
    """What the hooks of the role say, and what they ask of which router, over a module that only tells."""
    ours = tmp_path / "ansible_collections/llmops/vllm"
    (ours / "plugins/modules").mkdir(parents=True)
    (ours / "plugins/modules/router_replicas.py").write_text(MODULE % (tmp_path / "asked"))
    for name in ("roles", "plugins/filter", "plugins/plugin_utils", "plugins/module_utils"):
        (ours / name).symlink_to(CLONE / name)

    def rolled_out(extra: dict | None = None, **routers: dict) -> tuple[str, list[str]]:
        routers = {name: {"vllm_router_directory": name, **given} for name, given in routers.items()}
        (tmp_path / "asked").touch()
        done = play(ROLLOUT, routers, home=tmp_path, vllm_serve_host="192.0.2.11", **(extra or {}))
        return " ".join((done.stdout + done.stderr).split()), (tmp_path / "asked").read_text().splitlines()

    return rolled_out


def test_only_what_the_key_guards_is_routed(rendered):
    told = rendered()
    config = " ".join(told["config"].split())
    assert "location ~ . { return 404; }" in config
    assert 'location ^~ "/v1/" { proxy_pass "http://replicas/v1/"; }' in config
    assert 'location = "/health" { proxy_pass "http://replicas/health"; }' in config
    assert config.count("location ") == 3
    assert "proxy_set_header Connection close;" in config, "nginx 1.29.7 keeps connections unless told"
    assert told["unit"] == "nginx-vllm-router.service"
    assert told["metrics"] == "http://127.0.0.1:8000/metrics"


@pytest.mark.parametrize(
    ("directory", "unit"),
    [
        ("/opt//vllm/router/", "nginx-vllm-router.service"),
        ("/srv/router", "nginx-vllm--srv-router.service"),
        ("/srv-router", "nginx-vllm--srv\\x2drouter.service"),
        ("/srv/a b", "nginx-vllm--srv-a\\x20b.service"),
    ],
)
def test_no_two_directories_have_one_unit(rendered, directory, unit):
    told = rendered(vllm_router_directory=directory, vllm_router_paths=["/"])
    assert told["unit"] == unit
    assert f'pid "{os.path.normpath(directory)}/run/nginx.pid";' in told["config"]


@pytest.mark.parametrize(
    ("host", "metrics"),
    [("0.0.0.0", "http://0.0.0.0:8001/metrics"), ("::", "http://[::]:8001/metrics")],
)
def test_a_replica_asks_itself(rendered, host, metrics):
    told = rendered(vllm_serve_host=host, vllm_serve_port=8001, vllm_router_address="198.51.100.1")
    assert told["metrics"] == metrics


def test_a_router_that_is_gone_leaves_the_replica_at_the_others(rolled_out):
    said, asked = rolled_out(one=LOCAL, two=GONE, three=LOCAL)
    assert asked == ["drain at one", "undrain at one", "undrain at three"]
    assert "RESCUED by gpu1 can't be drained, as its router two could not be reached:" in said
    assert "STOPPED" not in said
    assert "gpu1 is not back in service everywhere. two could not be reached: " in said
    assert "Once that is mended, roll out again" in said
    assert "unreachable=0" in said


def test_a_router_that_refuses_is_named(rolled_out):
    said, asked = rolled_out(one=LOCAL, refuses=LOCAL, three=LOCAL)
    assert asked == ["drain at one", "drain at refuses", "undrain at one", "undrain at refuses", "undrain at three"]
    assert "gpu1 is not back in service everywhere. refuses: it knows nobody Once" in said


def test_all_is_well(rolled_out):
    said, asked = rolled_out(one=LOCAL)
    assert asked == ["drain at one", "undrain at one"]
    assert "STOPPED" in said and "failed=0" in said


@pytest.mark.parametrize(
    ("deployment", "follows"),
    [
        ({"vllm_deployment": "vllm"}, False),
        ({"vllm_deployment": "vllm", "vllm_deployment_head": "gpu1"}, False),
        ({"vllm_deployment": "vllm", "vllm_deployment_head": "gpu0"}, True),
        ({"vllm_deployment": "vllm_router"}, True),
    ],
)
def test_only_the_head_of_a_deployment_is_drained(rolled_out, deployment, follows):
    said, asked = rolled_out(deployment, one=LOCAL)
    assert asked == ([] if follows else ["drain at one", "undrain at one"])
    waited = said.partition("Wait until it has answered all]")[2].partition("TASK [")[0]
    assert ("skipping: [gpu1]" in waited) is follows
    assert "STOPPED" in said and "failed=0" in said


def test_the_service_of_the_package_is_masked_before_there_is_one():
    """Wherever a run ends, nothing that nobody asked for has begun; and what failed to stop is not told as what failed to install."""
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text())
    (install,) = [task for task in tasks if task["name"] == "Install nginx"]
    steps = [next(key for key in task if key.startswith("ansible.")) for task in install["block"]]
    assert steps == ["ansible.builtin.find", "ansible.builtin.systemd_service", "ansible.builtin.package"]
    assert install["block"][1]["ansible.builtin.systemd_service"] == {"name": "nginx.service", "masked": True}
    (stop,) = [task for task in tasks if "ansible.builtin.service" in task]
    assert "vllm_router_services.matched == 0" in stop["when"]

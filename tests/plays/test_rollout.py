"""Where rollout.yml goes back: the playbook itself, over roles that only tell how things stand. On a server: tests/e2e/test_rollout.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[2]
WRITTEN = {"id": "ours", "current": {"id": "before"}}
BACK = "is back at before, as before. The new release failed:"


@pytest.mark.parametrize(
    ("written", "current", "proven", "said", "back", "served"),
    [
        (WRITTEN, "ours", False, BACK, True, True),
        (WRITTEN, "before", False, BACK, True, True),
        (WRITTEN, "before", True, "still serves before, as before. The new release failed:", False, True),
        (WRITTEN, "theirs", False, "the release of another run, theirs, is the current one there.", False, False),
        (WRITTEN, "theirs", True, "the release of another run, theirs, is the current one there.", False, True),
        ({"id": "ours", "current": {}}, "theirs", False, "the release of another run, theirs,", False, False),
        (None, "before", False, BACK, True, True),  # it failed before a release was written
        ({"failed": True, "msg": "No space"}, "before", False, BACK, True, True),
    ],
)
def test_it_goes_back_from_what_is_its_own(written, current, proven, said, back, served, tmp_path):
    status = {"current": {"id": current}, "running": current, "proven": proven}
    result = {"content": {"id": "before"}}
    facts = {"vllm_serve_written": written} if written else {"nothing": True}
    roles = {
        "vllm_serve/tasks/main.yml": [{"set_fact": facts}, {"name": "Break", "fail": {"msg": "it broke"}}],
        "vllm_serve/tasks/status.yml": [{"set_fact": {"vllm_serve_status": status}}],
        "vllm_serve/tasks/rollback.yml": [{"name": "WENT BACK", "set_fact": {"vllm_serve_result": result}}],
        **{f"vllm_{name}/tasks/main.yml": [] for name in ("host", "models", "build", "drafter", "verify")},
    }
    done = rolled_out(roles, tmp_path)
    told = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in told, done.stdout + done.stderr
    assert "Break: it broke" in told
    assert ("WENT BACK" in told) is back
    assert ("BROUGHT BACK INTO SERVICE" in told) is served


@pytest.mark.parametrize(
    ("current", "proven", "stands"),
    [({"id": "before"}, False, "before"), ({"id": "before"}, True, "before"), ({}, False, "nothing")],
)
def test_a_host_that_stays_in_service_is_left_alone(current, proven, stands, tmp_path):
    """It may be the last one that serves, proven or not."""
    status = {"current": current, "running": current.get("id"), "proven": proven}
    roles = {
        "vllm_serve/tasks/main.yml": [{"name": "SERVED", "debug": {"msg": ""}}],
        "vllm_serve/tasks/status.yml": [{"set_fact": {"vllm_serve_status": status}}],
        "vllm_serve/tasks/rollback.yml": [{"name": "WENT BACK", "debug": {"msg": ""}}],
        **{f"vllm_{name}/tasks/main.yml": [] for name in ("host", "models", "build", "drafter", "verify")},
    }
    (tmp_path / "drain.yml").write_text(json.dumps([{"name": "Drain", "fail": {"msg": "it is the last one"}}]))
    done = rolled_out(roles, tmp_path, "-e", f"vllm_rollout_drain={tmp_path}/drain.yml")
    told = " ".join(done.stdout.split())
    assert done.returncode == 2
    assert f"one still serves {stands}, as before. The new release failed: Drain: it is the last one" in told, told
    assert "WENT BACK" not in told and "SERVED" not in told
    assert "BROUGHT BACK INTO SERVICE" in told


def rolled_out(roles, tmp_path, *options):
    """What rollout.yml says over these roles: tasks by their paths."""
    ours = tmp_path / "ansible_collections/llmops/vllm"
    for name, tasks in roles.items():
        (ours / "roles" / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / "roles" / name).write_text(yaml.safe_dump(tasks))
    for name in ("playbooks/rollout.yml", "plugins/filter/rollout_batches.py"):
        (ours / name).parent.mkdir(parents=True)
        shutil.copy(CLONE / name, ours / name)
    (tmp_path / "undrain.yml").write_text(json.dumps([{"name": "BROUGHT BACK INTO SERVICE", "debug": {"msg": ""}}]))
    return subprocess.run(
        [
            *(sys.executable, "-m", "ansible.cli.playbook", "-i", "one,", "-c", "local"),
            *("llmops.vllm.rollout", "-e", f"vllm_rollout_undrain={tmp_path}/undrain.yml", *options),
        ],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

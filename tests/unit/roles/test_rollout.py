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

CLONE = Path(__file__).parents[3]
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
    ours = tmp_path / "ansible_collections/llmops/vllm"
    for name, tasks in roles.items():
        (ours / "roles" / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / "roles" / name).write_text(yaml.safe_dump(tasks))
    (ours / "playbooks").mkdir()
    shutil.copy(CLONE / "playbooks/rollout.yml", ours / "playbooks")
    (tmp_path / "undrain.yml").write_text(json.dumps([{"name": "BROUGHT BACK INTO SERVICE", "debug": {"msg": ""}}]))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible.cli.playbook", "-i", "one,", "-c", "local"),
            *("llmops.vllm.rollout", "-e", f"vllm_rollout_undrain={tmp_path}/undrain.yml"),
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
    told = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in told, done.stdout + done.stderr
    assert "Break: it broke" in told
    assert ("WENT BACK" in told) is back
    assert ("BROUGHT BACK INTO SERVICE" in told) is served

"""Ansible lets a registered value, and one given by -e, win over the vars of a block, a task or an include.

So no name may be given in both ways, and none that people set is set for a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CLONE = Path(__file__).parents[2]
FILES = [*CLONE.glob("roles/*/tasks/*.yml"), *CLONE.glob("playbooks/**/*.yml")]
SECTIONS = ("pre_tasks", "tasks", "post_tasks", "block", "rescue", "always")


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        for section in SECTIONS:
            yield from tasks(entry.get(section) or [])


def test_no_name_is_registered_and_given():
    every = [task for file in FILES for task in tasks(yaml.safe_load(file.read_text()))]
    kept = {task["register"] for task in every if "register" in task}
    kept |= {name for task in every for name in task.get("ansible.builtin.set_fact") or {}}
    # The vars of a play are for all of it; those of a task would be in vain.
    given = {name for task in every if "hosts" not in task for name in task.get("vars") or {}}
    assert {"vllm_serve_process", "vllm_serve_result"} <= kept
    assert {"vllm_serve_release", "vllm_serve_state"} <= given
    assert kept & given == set()


def test_no_task_takes_back_what_people_set():
    options = {
        name for file in CLONE.glob("roles/*/defaults/main.yml") for name in yaml.safe_load(file.read_text()) or {}
    }
    files = [*CLONE.glob("roles/*/tasks/*.yml")]
    given = {
        name for file in files for task in tasks(yaml.safe_load(file.read_text())) for name in task.get("vars") or {}
    }
    assert {"vllm_serve_port", "vllm_build_venv"} <= options
    assert "vllm_serve_url" in given
    assert options & given == set()

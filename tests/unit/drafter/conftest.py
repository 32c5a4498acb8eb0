"""The drafter modules called as Ansible calls them, and the judgement called without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking

sys.path.insert(0, str(Path(__file__).parent))  # synthetic and published, beside the tests that import them
MODULES = Path(__file__).parents[3] / "plugins/modules"
# How a module is handed its arguments differs between the versions of ansible-core.
CALL = """
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def call(tmp_path):
    """Runs a module in a process of its own and gives back its result."""

    def run(module, check=False, **params):
        scratch = tmp_path / ".ansible"
        scratch.mkdir(exist_ok=True)
        args = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        args |= {"_ansible_check_mode": check, "_ansible_diff": True}
        args |= {"_ansible_tmpdir": str(scratch), "_ansible_remote_tmp": str(scratch)}
        done = subprocess.run(
            [sys.executable, "-c", CALL, str(MODULES / f"{module}.py")],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def judge():
    """The judgement over a drafter, told of its mended config."""

    def run(path, **params):
        defaults = {name: spec.get("default") for name, spec in asking.ARGUMENTS.items()}
        given = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        return asking.judge({**defaults, "path": str(path), **given}, mended=True)

    return run

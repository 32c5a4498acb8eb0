"""The drafter modules called as Ansible calls them, and the judgement called without."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils import basic

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking

CLONE = Path(__file__).parents[3]
sys.path.insert(0, str(Path(__file__).parent))  # synthetic and published, beside the tests that import them


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs a module and gives back its result."""
    # How a module is handed its arguments differs between the versions of ansible-core.
    if hasattr(basic, "_ANSIBLE_PROFILE"):
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    scratch = tmp_path / ".ansible"
    scratch.mkdir()

    def run(module, check=False, **params):
        args = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        args |= {"_ansible_check_mode": check, "_ansible_diff": True}
        args |= {"_ansible_tmpdir": str(scratch), "_ansible_remote_tmp": str(scratch)}
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode())
        # Not by runpy: under ansible-test a path of the collection belongs to Ansible's own importer.
        path = CLONE / f"plugins/modules/{module}.py"
        code = compile(path.read_text(), str(path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
            exec(code, {"__name__": "__main__"})
        return json.loads(printed.getvalue())

    return run


@pytest.fixture
def judge():
    """The judgement over a drafter, told of its mended config."""

    def run(path, **params):
        defaults = {name: spec.get("default") for name, spec in asking.ARGUMENTS.items()}
        given = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        return asking.judge({**defaults, "path": str(path), **given}, mended=True)

    return run

"""Whom git runs as."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import git

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")


@pytest.fixture
def theirs():
    """A repository of nobody, with a program in its configuration; beside it the file in which that leaves its ids."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to others
        tree, ids = Path(name, "tree"), Path(name, "ids")
        os.chmod(name, 0o711)
        ids.touch()
        ids.chmod(0o666)
        subprocess.run(["git", "init", "--quiet", tree], check=True)
        (tree / "a").touch()
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", "-C", tree, "add", "a"], check=True)
        subprocess.run(["git", "-C", tree, *who, "commit", "--quiet", "-m", "a"], check=True)
        program = Path(name, "program")
        program.write_text(f'#!/bin/sh\necho "$(id -u) $(id -G) ${{HOME-none}} ${{SECRET-none}}" >> {ids}\nexit 1\n')
        program.chmod(0o755)
        subprocess.run(["git", "-C", tree, "config", "core.fsmonitor", program], check=True)
        for path in (tree, *tree.rglob("*")):
            shutil.chown(path, "nobody")  # the group stays root's
        yield tree, ids


@as_root
def test_programs_of_a_repository_run_as_its_owner(theirs, monkeypatch):
    monkeypatch.setenv("SECRET", "canary")
    tree, ids = theirs
    assert git.is_clean(str(tree)) is True
    nobody = subprocess.check_output(["id", "-u", "nobody"], text=True).strip()
    group = subprocess.check_output(["id", "-g", "nobody"], text=True).strip()
    assert set(ids.read_text().splitlines()) == {f"{nobody} {group} none none"}


@as_root
def test_a_repository_of_nobody_in_a_tree_of_root_is_not_read(theirs):
    tree, ids = theirs
    shutil.chown(tree, "root")
    assert git.is_clean(str(tree)) is None
    assert ids.read_text() == ""


def test_no_repository(tmp_path):
    assert git.is_clean(str(tmp_path / "nowhere")) is None

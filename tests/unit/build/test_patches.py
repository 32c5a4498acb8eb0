"""Patched, unpatched and unknown are three answers."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import git, installed
from ansible_collections.llmops.vllm.plugins.module_utils._build.patches import CATALOGUE, Origin, Patch, answer


@pytest.fixture
def shallow(tmp_path, repository):
    path = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", repository.url, path], check=True)
    subprocess.run(
        ["git", "-C", path, "fetch", "--quiet", "--depth=1", "origin", "refs/pull/40898/head:pull"], check=True
    )
    return path


def test_an_ancestor_is_told_from_one_that_is_none(repository):
    assert git.is_ancestor(str(repository.path), repository.first, repository.head) is True
    assert git.is_ancestor(str(repository.path), repository.first, repository.later) is False
    assert git.is_ancestor(str(repository.path), "0" * 40, repository.head) is None
    assert git.is_ancestor("/nowhere", repository.first, repository.head) is None


def test_a_shallow_clone_is_not_taken_for_an_unpatched_one(repository, shallow):
    assert git.is_shallow(str(shallow))
    assert git.is_ancestor(str(shallow), repository.first, repository.head) is None
    assert git.is_ancestor(str(shallow), repository.head, repository.head) is True


def test_a_build_with_and_one_without(whole, repository, shallow):
    found = installed.look(str(whole / "venv"))
    patch = Patch("ours", commit=repository.first)
    full, edge = str(repository.path), str(shallow)
    assert answer(patch, found, Origin(full, repository.head)).has == "yes"
    assert answer(patch, found, Origin(full, repository.later)).has == "no"
    assert answer(patch, found, Origin(edge, repository.head)).has == "unknown"
    assert "shallow" in answer(patch, found, Origin(edge, repository.head)).by
    assert answer(patch, found, Origin()).has == "unknown"


@pytest.mark.parametrize(
    ("patch", "version", "has"),
    [
        (Patch("p", files=("vllm/a.py",), pattern="new"), "0.20.0", "yes"),
        (Patch("p", files=("vllm/a.py",), pattern="other"), "0.20.0", "no"),
        (Patch("p", files=("vllm/gone.py",), pattern="new"), "0.20.0", "unknown"),
        (Patch("p", files=("vllm/gone.py", "vllm/a.py"), pattern="new"), "0.20.0", "yes"),
        (Patch("p", since=(0, 20)), "0.20.0", "yes"),
        (Patch("p", since=(0, 20)), "0.19.1", "no"),
        (Patch("p", since=(0, 20)), "0.19.1.dev3+g0123456", "unknown"),
        (Patch("p", since=(0, 20)), "0.20.1.dev3+g0123456", "yes"),
        (Patch("p", since=(0, 20), files=("vllm/a.py",), pattern="other"), "0.21.0", "unknown"),
        (Patch("p", pull=40898), "0.19.0", "yes"),
        (Patch("p", pull=1), "0.19.0", "unknown"),
    ],
)
def test_what_speaks_loudest(tmp_path, patch, version, has):
    place = tmp_path / "lib/python3.11/site-packages"
    info = place / f"vllm-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: vllm\nVersion: {version}\n")
    (info / "WHEEL").write_text("")
    (place / "vllm").mkdir()
    (place / "vllm/a.py").write_text("new = 1\n")
    assert answer(patch, installed.look(str(tmp_path)), Origin(ref="refs/pull/40898/head")).has == has


def test_the_catalogue_has_the_fixes_of_dflash():
    assert [patch.name for patch in CATALOGUE] == ["layer-id-offset", "drafter-sliding-window", "eagle-cache-drop"]

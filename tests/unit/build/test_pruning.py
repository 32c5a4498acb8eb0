"""Which builds stay."""

from __future__ import annotations

import fcntl
import json
import os

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import pruning


@pytest.fixture
def home(tmp_path):
    """Five builds, the first the oldest."""
    for number in range(1, 6):
        build = tmp_path / f"builds/b{number}"
        build.mkdir(parents=True)
        (build / "build.lock").touch()
        (build / "build.json").write_text("{}")
        os.utime(build / "build.json", (number, number))
    return tmp_path


def release(home, instance, **build):
    path = home / "instances" / instance / "releases/r1/release.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"build": build}))


def left(home):
    return sorted(os.listdir(home / "builds"))


def test_the_newest_stay(home):
    assert pruning.prune(str(home), 2) == ["b3", "b2", "b1"]
    assert left(home) == ["b4", "b5"]


def test_what_a_release_names_stays(home):
    release(home, "one", id="b1", venv="/elsewhere/venv")
    release(home, "two", id="existing", venv=str(home / "builds/b2/venv"))
    pruning.prune(str(home), 1)
    assert left(home) == ["b1", "b2", "b5"]


def test_what_is_being_built_stays(home):
    with open(home / "builds/b1/build.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert "b1" not in pruning.prune(str(home), 1)
    assert left(home) == ["b1", "b5"]


def half(home, name):
    """What a killed installer leaves, newer than all the others."""
    build = home / "builds" / name
    build.mkdir()
    (build / "build.lock").touch()
    return build


def test_halves_are_not_among_the_newest(home):
    half(home, "half")
    release(home, "one", id="named", venv=str(half(home, "named") / "venv"))
    (home / "builds/laid").mkdir()  # for an installer that has not started
    with open(half(home, "building") / "build.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert pruning.prune(str(home), 2) == ["b3", "b2", "b1", "half"]
    assert left(home) == ["b4", "b5", "building", "laid", "named"]


def test_one_always_stays(home):
    pruning.prune(str(home), 0)
    assert left(home) == ["b5"]


def test_with_a_release_that_cannot_be_read_all_stay(home):
    path = home / "instances/one/releases/r1/release.json"
    path.parent.mkdir(parents=True)
    path.write_text("{torn")
    assert pruning.prune(str(home), 1) == []
    assert left(home) == ["b1", "b2", "b3", "b4", "b5"]

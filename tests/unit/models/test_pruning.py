"""Which snapshots go: none that a release names, in any way, and none when it isn't known."""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import locks
from ansible_collections.llmops.vllm.plugins.module_utils._models import listing, pruning, snapshot

DAY = 86400


@pytest.fixture
def home(tmp_path):
    return tmp_path / "vllm"


def lay(home, name, digit, age=2 * DAY):
    """A snapshot that was whole so many seconds ago."""
    path = home / "models" / name / (digit * 40)
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"x" * 1000)
    job = home / "models/.jobs" / name / path.name
    job.mkdir(parents=True)
    (job / "fetch-1.log").write_text("WHOLE\n")
    (job / "lock").touch()
    snapshot.write(str(path), snapshot.Record(listing.Listing(name.replace("--", "/"), path.name, ()), {}))
    for made in (path / ".snapshot.json", path, job):
        os.utime(made, (time.time() - age,) * 2)
    return path


def release(home, name, **content):
    path = home / "instances/default/releases" / name
    path.mkdir(parents=True)
    (path / "release.json").write_text(json.dumps(content))
    return path


def surplus(home, older=DAY):
    return [one.path for one in pruning.surplus(str(home), older)]


def test_what_a_release_names_stays_and_the_rest_goes(home):
    target, drafter, other = lay(home, "a--target", "1"), lay(home, "a--drafter", "2"), lay(home, "a--target", "3")
    overlay = home / "overlays/a--drafter-0123"
    overlay.mkdir(parents=True)
    (overlay / "model.safetensors").symlink_to(drafter / "model.safetensors")
    release(home, "r1", target={"path": str(target)}, drafter={"path": str(overlay)})
    assert surplus(home) == [str(other)]
    (one,) = pruning.surplus(str(home), DAY)
    assert one.size > 1000
    assert pruning.remove(one)
    assert sorted(p.name for p in (home / "models/a--target").iterdir()) == ["1" * 40]
    assert surplus(home) == []


def test_with_its_last_snapshot_a_model_goes(home):
    lay(home, "a--target", "1")
    (one,) = pruning.surplus(str(home), DAY)
    assert pruning.remove(one)
    assert [str(p.relative_to(home)) for p in home.rglob("*")] == ["models", "models/.jobs"]


def test_what_came_within_a_day_stays(home):
    lay(home, "a--target", "1", age=DAY / 2)
    assert surplus(home) == []
    assert len(surplus(home, older=0)) == 1


def test_a_fetch_that_nobody_finished_goes_too(home):
    path = lay(home, "a--target", "1")
    (path / ".snapshot.json").unlink()
    (path / "model.safetensors").unlink()
    path.rmdir()
    assert surplus(home) == [str(path)]


def test_what_is_being_fetched_or_served_stays(home):
    path = lay(home, "a--target", "1")
    (one,) = pruning.surplus(str(home), DAY)
    for name in ("lock", "serve.lock"):
        with locks.locked(os.path.join(one.job, name)):
            assert not pruning.remove(one)
    assert (path / ".snapshot.json").exists()


@pytest.mark.parametrize("torn", ["", '{"target": {"pa', "\xff"])
def test_while_a_release_can_not_be_read_nothing_goes(home, torn):
    lay(home, "a--target", "1")
    path = release(home, "r1") / "release.json"
    path.write_text(torn, encoding="latin-1")
    with pytest.raises(pruning.UnknownNeedsError, match=r"release\.json can't be read"):
        pruning.surplus(str(home), DAY)


def test_a_home_with_nothing_in_it(home):
    assert surplus(home) == []

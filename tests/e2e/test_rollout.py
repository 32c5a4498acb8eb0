"""rollout.yml and rollback.yml on the real engine: what falls short goes back by itself, and what is refused stops nothing."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

pytestmark = [pytest.mark.engine, pytest.mark.long]
# As an operator may believe it to be right: what is stated is not doubted, so only the measurement can tell.
WRONG = {"vllm_drafter_values": {"dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1, 2]}}}


@pytest.fixture(scope="module")
def first(site):
    """The release that the first rollout brought."""
    assert site.play("rollout").code == 0
    return (site.home / "current").resolve()


def verdict(release):
    return json.loads((release / "evidence.json").read_text())["verdict"]


def said(run):
    """Ansible folds long messages."""
    return re.sub(r"\s+", " ", run.output)


def link(path, release):
    path.unlink()
    path.symlink_to(f"releases/{release.name}")


def test_a_wrong_drafter_goes_back_by_itself(site, first, tmp_path):
    there = set(first.parent.iterdir())  # of an earlier run of the tests, too
    hooks = {}
    for hook in ("drain", "undrain"):
        hooks[f"vllm_rollout_{hook}"] = str(tmp_path / f"{hook}.yml")
        (tmp_path / f"{hook}.yml").write_text(json.dumps([{"shell": f"echo {hook}ed >> {tmp_path}/service"}]))
    run = site.play("rollout", **WRONG, **hooks)
    assert run.code != 0
    assert (tmp_path / "service").read_text().split() == ["drained", "undrained"]
    assert f"localhost is back at {first.name}, as before. The new release failed:" in said(run)
    assert (site.home / "current").resolve() == first
    assert verdict(first) == "pass"
    assert site.record.argv[-1] == f"{first}/launch.py"
    assert processes.alive(site.record)
    (wrong,) = set(first.parent.iterdir()) - there
    assert verdict(wrong) == "fail"


def test_what_is_refused_beforehand_stops_nothing(site, first):
    """Nor after a restart, which proves again what it started anew."""
    assert site.play("restart").code == 0
    assert verdict(first) == "pass"
    before = site.record
    run = site.play("rollout", vllm_serve_args={"port": 1})
    assert run.code != 0
    assert f"localhost still serves {first.name}, as before" in said(run)
    assert site.record == before


def test_people_go_back_to_the_last_that_passed(site, first):
    assert site.play("rollout", vllm_serve_env={"ANOTHER": "release"}).code == 0
    second = (site.home / "current").resolve()
    assert second != first
    assert (site.home / "previous").resolve() == first
    assert site.play("rollback").code == 0
    assert (site.home / "current").resolve() == first
    assert site.record.argv[-1] == f"{first}/launch.py"


def test_there_is_no_way_back_from_the_last_that_passed(site, first):
    before = site.record
    run = site.play("rollback")
    assert run.code != 0
    assert f"There is nothing to go back to: {first.name}, the last release that passed, is what runs" in said(run)
    assert site.record == before


def test_a_way_back_that_was_interrupted_is_gone_to_its_end(site, first):
    """As if the controller had been killed when the link was moved: what runs is still the other one."""
    assert site.play("rollout", vllm_serve_env={"ANOTHER": "release"}).code == 0
    link(site.home / "current", first)
    assert site.play("rollback").code == 0
    assert site.record.argv[-1] == f"{first}/launch.py"
    assert verdict(first) == "pass"


def test_a_way_back_that_leads_nowhere_is_not_taken(site, first):
    before = site.record
    gone = first.parent / "gone"
    gone.mkdir(exist_ok=True)
    content = json.loads((first / "release.json").read_text())
    (gone / "release.json").write_text(json.dumps({**content, "id": "gone", "build": {"venv": "/nowhere"}}))
    link(site.home / "previous", gone)
    run = site.play("rollback")
    assert run.code != 0
    assert "There is no program /nowhere/bin/python on this host. Nothing was stopped or started." in said(run)
    assert (site.home / "current").resolve() == first
    assert site.record == before
    assert processes.alive(site.record)

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


def test_a_wrong_drafter_goes_back_by_itself(site, first):
    run = site.play("rollout", **WRONG)
    assert run.code != 0
    said = re.sub(r"\s+", " ", run.output)
    assert f"localhost is back at {first.name}, as before. The new release failed:" in said
    assert (site.home / "current").resolve() == first
    assert verdict(first) == "pass"
    assert site.record.argv[-1] == f"{first}/launch.py"
    assert processes.alive(site.record)
    (wrong,) = (r for r in first.parent.iterdir() if r != first)
    assert verdict(wrong) == "fail"


def test_what_is_refused_beforehand_stops_nothing(site, first):
    before = site.record
    run = site.play("rollout", vllm_serve_args={"port": 1})
    assert run.code != 0
    assert f"localhost still serves {first.name}, as before" in re.sub(r"\s+", " ", run.output)
    assert site.record == before


def test_people_go_back_to_the_last_that_passed(site, first):
    assert site.play("rollout", vllm_serve_env={"ANOTHER": "release"}).code == 0
    second = (site.home / "current").resolve()
    assert second != first
    assert (site.home / "previous").resolve() == first
    assert site.play("rollback").code == 0
    assert (site.home / "current").resolve() == first
    assert site.record.argv[-1] == f"{first}/launch.py"
    assert site.play("rollback").changed == 0

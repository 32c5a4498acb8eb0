"""The pair out of a hub on loopback, mended and served by the real engine; then without the hub, and with nothing to remove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.tests.hub.hub import Hub

pytestmark = pytest.mark.engine
PAIR = Path(__file__).parents[2] / "playbooks/files/tiny-pair"


@pytest.fixture(scope="module")
def hub():
    with Hub() as hub:
        for kind in ("target", "drafter"):
            hub.add_directory(f"tiny/{kind}", PAIR / kind)
        yield hub


@pytest.fixture(scope="module")
def wishes(hub):
    named = {
        kind: {"repo": f"tiny/{kind}", "revision": hub.repositories[f"tiny/{kind}"].names["main"]}
        for kind in ("target", "drafter")
    }
    return {"vllm_models_endpoint": hub.url, **{f"vllm_models_{kind}": wish for kind, wish in named.items()}}


@pytest.fixture(scope="module")
def served(site, wishes):
    run = site.play("site", **wishes)
    assert run.code == 0
    return site.record


def test_what_was_fetched_is_served_and_accepted(site, hub, served):
    release = json.loads((site.home / "current/release.json").read_text())
    assert release["target"]["revision"] == hub.repositories["tiny/target"].names["main"]
    assert release["argv"][2] == release["target"]["path"]
    assert json.loads((site.home / "current/env.json").read_text())["HF_HUB_OFFLINE"] == "1"
    evidence = json.loads((site.home / "current/evidence.json").read_text())
    assert evidence["measured"]["acceptance_rate"] >= 0.95


def test_a_second_run_asks_no_hub_and_changes_nothing(site, hub, served, wishes):
    hub.forget()
    again = site.play("site", **wishes)
    assert (again.code, again.changes) == (0, [])
    assert hub.asked == []
    away = site.play("site", **{**wishes, "vllm_models_endpoint": "http://hub.invalid"})
    assert (away.code, away.changes) == (0, [])
    assert site.record == served
    assert processes.alive(served)


def test_what_is_served_is_not_removed(site, served):
    run = site.play("prune_models", "--check", vllm_prune_older=0)
    assert run.code == 0
    release = json.loads((site.home / "current/release.json").read_text())
    assert release["target"]["path"] not in run.output
    assert release["target"]["revision"] not in run.output

"""The record of what was run for real."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ansible_collections.llmops.vllm.tests import tested

TEST = "tests/e2e/test_site.py::test_a_second_run_changes_nothing"


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(tested, "RECORD", tmp_path / "tested.json")
    monkeypatch.setattr(tested, "is_there", lambda name: "gone" not in name)
    monkeypatch.setattr(tested, "machine", lambda: "a machine, no GPU")

    def run(*phases: str, name: str = TEST) -> dict[str, dict[str, object]]:
        recorder = tested.Recorder()
        for phase in phases:
            recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=name, outcome=phase, duration=1.04))
        recorder.pytest_sessionfinish()
        return json.loads(tested.RECORD.read_text())

    return run


def test_a_test_is_recorded_with_where_and_when(record):
    (told,) = record("passed", "passed", "passed").values()
    assert told == {
        "outcome": "passed",
        "seconds": 3.1,
        "date": told["date"],
        "commit": tested.commit(),
        "machine": "a machine, no GPU",
    }


def test_a_test_that_failed_in_any_phase_has_failed(record):
    assert record("passed", "failed", "passed")[TEST]["outcome"] == "failed"
    assert record("passed", "passed", "failed")[TEST]["outcome"] == "failed"
    assert record("passed", "passed", "passed")[TEST]["outcome"] == "passed"


def test_what_was_skipped_leaves_the_record_as_it_was(record):
    record("passed", "passed", "passed")
    assert record("skipped", "passed")[TEST]["outcome"] == "passed"
    assert record("skipped", "passed", name=TEST + "[other]") == record("passed", name="tests/unit/x.py::test_x")


def test_what_is_no_test_any_more_is_dropped(record):
    assert record("passed", name=TEST + "_gone") == {}


def test_the_page_tells_failures_and_leaves_nothing_out(record):
    record("passed", "passed")
    record("failed", name=TEST + "[x-1]")
    page = tested.page()
    assert "| [e2e/test_site.py](../tests/e2e/test_site.py) | 1 | 1 | 0.1 |" in page
    assert "On a machine, no GPU:" in page
    assert "\n- a second run changes nothing, 2.1 s, " in page
    assert "\n- **failed**: a second run changes nothing (x-1), 1 s, " in page
    assert all(never.what in page for never in tested.NEVER)

"""The record of what was run for real."""

from __future__ import annotations

import re
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
        for when, outcome in zip(("setup", "call", "teardown"), phases):
            recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=name, when=when, outcome=outcome, duration=1.04))
        return tested.read()

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
    before = record("passed", "passed", "passed")
    assert record("passed", "skipped", "passed") == before
    assert record("passed", "skipped", "passed", name=TEST + "[other]") == before


def test_unit_tests_are_not_recorded(record):
    assert record("passed", "passed", "passed", name="tests/unit/docs/test_tested.py::test_x") == {}


def test_what_is_no_test_any_more_is_dropped(record):
    assert record("passed", "passed", "passed", name=TEST + "_gone") == {}


def test_the_page_tells_failures_and_leaves_nothing_out(record):
    record("passed", "passed", "passed")
    record("passed", "passed", "passed", name="tests/e2e/test_site.py::test_other[a]")
    record("passed", "failed", "passed", name="tests/e2e/test_site.py::test_other[x-1]")
    page = tested.page()
    assert "| [e2e/test_site.py](../tests/e2e/test_site.py) | 2 | 1 | 0.2 |" in page
    assert "On a machine, no GPU:" in page
    assert "\n- a second run changes nothing: 3 s, " in page
    assert re.search(r"\n- other, 2 ways: 6 s, .*\n    - \*\*failed\*\*: x-1\n", page)
    assert all(never.what in page for never in tested.NEVER)

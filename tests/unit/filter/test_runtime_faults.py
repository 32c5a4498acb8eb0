"""What an engine logged of itself, held against what was to be launched."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.filter.runtime_faults import runtime_faults

RIGHT = {"auxiliary_layers": [2, 4, 6], "version": "0.32.1.dev2+ga8062413a"}


def server(facts, launched=True, **drafter):
    content = {
        "build": {"id": "a8062413a-1", "version": "0.32.1.dev2+ga8062413a"},
        "drafter": {"path": "/d", "expected_aux_layers": [2, 4, 6], **drafter},
    }
    return {"launched": launched, "content": content, "log": {"facts": facts}}


def test_what_was_wanted_is_no_fault():
    assert runtime_faults(server(RIGHT)) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {**RIGHT, "auxiliary_layers": [1, 3, 5]},
            "hands the layers 1, 3, 5 of the target to the drafter, which was trained on 2, 4, 6",
        ),
        ({**RIGHT, "auxiliary_layers": None}, "took its defaults for the drafter in silence"),
        ({"version": RIGHT["version"]}, "took its defaults for the drafter in silence"),
        (
            {**RIGHT, "version": "0.32.1.dev2+gdeadbeef0"},
            "vLLM 0.32.1.dev2+gdeadbeef0 runs, and the build a8062413a-1 is 0.32.1.dev2+ga8062413a",
        ),
        ({**RIGHT, "version": "0.31.0"}, "vLLM 0.31.0 runs, and the build a8062413a-1 is 0.32.1.dev2+ga8062413a"),
    ],
    ids=["other layers", "null", "no line", "other commit", "other version"],
)
def test_a_fault_is_told(facts, said):
    (fault,) = runtime_faults(server(facts))
    assert said in fault


@pytest.mark.parametrize("version", ["0.32.1.dev2", "0.32.1.dev2+ga8062413a.cpu", None])
def test_a_version_that_tells_less_or_more_is_the_same(version):
    assert runtime_faults(server({**RIGHT, "version": version})) == []


def test_only_what_is_known_is_judged():
    assert runtime_faults(server({"auxiliary_layers": [9]}, expected_aux_layers=None)) == []
    assert runtime_faults({"launched": True, "content": {}, "log": {"skipped": True}}) == []


def test_a_server_that_was_already_up_is_judged_if_its_log_has_its_beginning():
    assert runtime_faults(server(RIGHT, launched=False)) == []
    (fault,) = runtime_faults(server({"version": RIGHT["version"]}, launched=False))
    assert "took its defaults for the drafter in silence" in fault
    assert runtime_faults(server({}, launched=False)) == []
    assert runtime_faults(server({"kv_tokens": 164472}, launched=False)) == [], "rotated away"

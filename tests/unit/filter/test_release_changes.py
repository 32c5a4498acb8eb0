"""What makes one release another one, in words."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.filter.release_changes import release_changes

BEFORE = {
    "build": {"id": "wheel-0.32.0", "version": "0.32.0"},
    "target": {"path": "/models/target"},
    "drafter": {"path": "/overlays/d-1", "digest": "1"},
    "argv": ["/venv/bin/vllm", "serve", "/models/target", "--enforce-eager", "--max-num-seqs=4"],
    "url": "http://127.0.0.1:8000",
    "environment": "aa",
    "launcher": "bb",
}


def test_the_same_is_no_change():
    assert release_changes({**BEFORE, "id": "x"}, BEFORE) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"build": {"id": "wheel-0.33.0", "version": "0.33.0"}}, "build: wheel-0.32.0 0.32.0 -> wheel-0.33.0 0.33.0"),
        ({"drafter": {"path": "/overlays/d-2", "digest": "2"}}, "drafter: /overlays/d-1 -> /overlays/d-2"),
        (
            {"drafter": {"path": "/overlays/d-1", "digest": "2" * 64, "expected_aux_layers": [2]}},
            "drafter: digest 1 -> digest 222222222222",
        ),
        (
            {"drafter": {**BEFORE["drafter"], "num_speculative_tokens": 7}},
            "drafter: none -> num_speculative_tokens 7",
        ),
        (
            {"argv": ["/venv/bin/vllm", "serve", "/models/target", "--max-num-seqs=8"]},
            "arguments: --enforce-eager --max-num-seqs=4 -> --max-num-seqs=8",
        ),
        ({"argv": [*BEFORE["argv"], "--dtype=half"]}, "arguments: none -> --dtype=half"),
        ({"url": "http://127.0.0.1:9000"}, "address: http://127.0.0.1:8000 -> http://127.0.0.1:9000"),
        ({"environment": "cc"}, "environment: another one"),
        ({"launcher": "cc"}, "launch script: another one"),
    ],
)
def test_a_change_is_told(change, said):
    assert release_changes(BEFORE, {**BEFORE, **change}) == [said]

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.filter.comparison import comparison
from ansible_collections.llmops.vllm.plugins.filter.comparison_table import comparison_table

BEFORE = {
    "acceptance_length": 1.0149,
    "acceptance_rate": 0.00213,
    "position_0": 0.0138,
    "tokens_per_second": 61.4,
    "drafts": 9,
}
AFTER = {
    "acceptance_length": 7.921,
    "acceptance_rate": 0.9887,
    "position_0": 1.0,
    "tokens_per_second": 402.6,
    "drafts": 8,
}


def test_only_what_says_whether_it_helped():
    assert comparison(BEFORE, AFTER) == {
        "before": {
            "acceptance_length": 1.0149,
            "acceptance_rate": 0.00213,
            "position_0": 0.0138,
            "tokens_per_second": 61.4,
        },
        "after": {"acceptance_length": 7.921, "acceptance_rate": 0.9887, "position_0": 1.0, "tokens_per_second": 402.6},
    }


def test_table():
    assert comparison_table(comparison(BEFORE, AFTER)).splitlines() == [
        "drafter               before     after",
        "acceptance length       1.01      7.92",
        "acceptance rate         0.2%     98.9%",
        "position 0              1.4%    100.0%",
        "tokens per second         61       403",
    ]


def test_a_figure_that_is_not_known_is_a_dash():
    table = comparison_table(comparison({**BEFORE, "tokens_per_second": None}, AFTER))
    assert table.splitlines()[-1] == "tokens per second          -       403"

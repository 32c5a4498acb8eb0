from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.filter.comparison import comparison
from ansible_collections.llmops.vllm.plugins.filter.comparison_table import comparison_table


def measured(drafts, drafted, accepted, position_0, tokens, speed):
    return {
        "drafts": drafts,
        "drafted": drafted,
        "accepted": accepted,
        "position_0": position_0,
        "tokens": tokens,
        "tokens_per_second": speed,
        "verdict": "pass",
    }


BEFORE = measured(1005, 7035, 15, 0.0138, 1017, 61.4)
AFTER = measured(129, 903, 893, 1.0, 1017, 402.6)


def test_only_what_says_whether_it_helped():
    assert comparison([BEFORE], [AFTER]) == {
        "before": {
            "acceptance_length": 1.0149,
            "acceptance_rate": 0.0021,
            "position_0": 0.0138,
            "tokens_per_second": 61.4,
            "each_tokens_per_second": [61.4],
        },
        "after": {
            "acceptance_length": 7.9225,
            "acceptance_rate": 0.9889,
            "position_0": 1.0,
            "tokens_per_second": 402.6,
            "each_tokens_per_second": [402.6],
        },
    }


def test_several_are_one_long_one():
    """As many tokens at half the speed take twice as long; a measurement of more drafts has more weight."""
    both = comparison([measured(100, 700, 0, 0.0, 600, 30.0), measured(300, 2100, 600, 0.4, 600, 60.0)], [AFTER])[
        "before"
    ]
    assert both == {
        "acceptance_length": 2.5,
        "acceptance_rate": 0.2143,
        "position_0": 0.3,
        "tokens_per_second": 40.0,
        "each_tokens_per_second": [30.0, 60.0],
    }


def test_table():
    assert comparison_table(comparison([BEFORE], [AFTER])).splitlines() == [
        "drafter               before     after",
        "acceptance length       1.01      7.92",
        "acceptance rate         0.2%     98.9%",
        "position 0              1.4%    100.0%",
        "tokens per second         61       403",
    ]


def test_a_figure_that_is_not_known_is_a_dash():
    table = comparison_table(comparison([{**BEFORE, "tokens_per_second": None}], [AFTER]))
    assert table.splitlines()[-1] == "tokens per second          -       403"
    assert comparison([{**BEFORE, "position_0": None}], [AFTER])["before"]["position_0"] is None
    nothing = measured(0, 0, 0, None, 1017, 61.4)
    assert comparison([nothing], [AFTER])["before"]["acceptance_length"] is None

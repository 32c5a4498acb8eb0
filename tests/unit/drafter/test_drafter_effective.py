"""The prediction of what the loader makes of a file, against what the real classes made of it."""

from __future__ import annotations

import pytest
from effective_measured import MEASURED
from measure_effective import QWEN3, SPECULATORS, complete

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import effective, formats

FORMS = {"qwen3": formats.ZLAB_LEGACY, "speculators": formats.SPECULATORS}


def test_every_row_was_measured():
    assert [row[:2] for row in MEASURED] == [("qwen3", c) for c in QWEN3] + [("speculators", c) for c in SPECULATORS]


@pytest.mark.parametrize(("kind", "changes", "measured"), MEASURED, ids=[f"{kind} {c}" for kind, c, _m in MEASURED])
def test_prediction_agrees_with_the_real_class(kind, changes, measured):
    predicted = effective.predict(complete(kind, changes), FORMS[kind])

    assert (predicted.refusal is None) == (measured is not None), predicted.refusal
    if measured is not None:
        assert {fact: predicted.values[fact] for fact in measured} == measured

"""Published drafters: right, they are left alone; with one key spoilt, that key is named."""

from __future__ import annotations

import pytest
from published import OWN, PUBLISHED, QWEN36_27B, QWEN36_27B_SHAPES
from synthetic import F, S, changed, drafter

WRONG_27B = {
    "dflash_config.mask_token_id": 248064,
    "dflash_config.target_layer_ids": [1, 17, 33, 49, 63],
    "layer_types": [F] * 5,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 28,
}


@pytest.mark.parametrize("published", [*PUBLISHED, OWN], ids=lambda p: p.name)
def test_a_right_one_has_no_error_and_no_change(published, tmp_path, judge):
    judged = judge(drafter(tmp_path / published.name.replace("/", "--") / "f00d", published.config, published.tensors))

    assert judged.verdict.edits == {}
    assert [str(f) for f in judged.findings if f.severity == "error"] == []


@pytest.mark.parametrize(
    ("published", "key", "value"),
    [pytest.param(p, key, value, id=f"{p.name}-{key}") for p in [*PUBLISHED, OWN] for key, value in p.spoilt.items()],
)
def test_one_spoilt_key_is_named_as_an_error(published, key, value, tmp_path, judge):
    spoilt = changed(published.config, {key: value})
    judged = judge(drafter(tmp_path / published.name.replace("/", "--"), spoilt, published.tensors))

    assert key in {finding.key for finding in judged.findings if finding.severity == "error"}


@pytest.mark.parametrize(
    ("published", "key", "value"),
    [pytest.param(p, key, value, id=f"{p.name}-{key}") for p in PUBLISHED for key, value in p.spoilt.items()],
)
def test_one_spoilt_key_is_mended_to_the_published_value(published, key, value, tmp_path, judge):
    spoilt = changed(published.config, {key: value})
    judged = judge(drafter(tmp_path / published.name.replace("/", "--"), spoilt, published.tensors))

    assert judged.remaining == []
    assert judged.case.config == published.config


def test_the_story(tmp_path, judge):
    judged = judge(drafter(tmp_path / "Qwen3.6-27B-DFlash", changed(QWEN36_27B, WRONG_27B), QWEN36_27B_SHAPES))

    assert len(QWEN36_27B_SHAPES) == 58
    assert {".".join(path): value for path, value in judged.verdict.edits.items()} == {
        "dflash_config.mask_token_id": 248070,
        "dflash_config.target_layer_ids": [1, 16, 31, 46, 61],
        "layer_types": [S, S, S, S, F],
        "sliding_window": 2048,
        "use_sliding_window": True,
        "max_window_layers": 5,
    }
    assert judged.remaining == []
    assert judged.public()["num_speculative_tokens"] == 15
    assert judged.public()["expected_aux_layers"] == [2, 17, 32, 47, 62]

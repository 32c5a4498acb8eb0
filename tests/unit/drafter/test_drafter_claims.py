"""Who is believed: the user's values before a reference, a reference before the catalogue, and no one by guess."""

from __future__ import annotations

import json

import pytest
from published import PUBLISHED, QWEN36_27B, QWEN36_27B_SHAPES
from synthetic import DROP, F, S, changed, config, drafter, shapes, write_safetensors

MASK, IDS, BLOCK = "dflash_config.mask_token_id", "dflash_config.target_layer_ids", "dflash_config.block_size"
WRONG = changed(QWEN36_27B, {MASK: 248064})
(NESTED,) = [p for p in PUBLISHED if p.name == "z-lab/Qwen3.6-35B-A3B-DFlash"]
(SPECULATORS,) = [p for p in PUBLISHED if p.name == "RedHatAI/Qwen3-8B-speculator.dflash"]


def edits(judged):
    return {".".join(map(str, path)): value for path, value in judged.verdict.edits.items()}


def told(judged, key):
    return [f"{f.severity}: {f.why}" for f in judged.findings if f.key == key]


@pytest.mark.parametrize(
    "where",
    [
        "Qwen3.6-27B-DFlash",
        "qwen3.6-27b-dflash",
        "z-lab/Qwen3.6-27B-DFlash",
        "models/z-lab--Qwen3.6-27B-DFlash/0123456789abcdef",
        "hub/models--z-lab--Qwen3.6-27B-DFlash/snapshots/0123456789abcdef",
        "overlays/Qwen3.6-27B-DFlash-0123456789ab",
    ],
)
def test_a_published_drafter_is_known_by_its_name_and_its_weights(where, tmp_path, judge):
    assert edits(judge(drafter(tmp_path / where, WRONG, QWEN36_27B_SHAPES))) == {MASK: 248070}


@pytest.mark.parametrize(
    "where", ["Qwen3.6-27B-DFlash/mine", "Qwen3.6-27B-DFlash/runs/0123", "Qwen3.6-27B-DFlash/snapshots"]
)
def test_a_drafter_is_not_called_by_what_it_merely_lies_in(where, tmp_path, judge):
    assert edits(judge(drafter(tmp_path / where, WRONG, QWEN36_27B_SHAPES))) == {}


def test_a_drafter_may_say_its_own_name(tmp_path, judge):
    named = changed(WRONG, {"_name_or_path": "z-lab/Qwen3.6-27B-DFlash"})
    assert edits(judge(drafter(tmp_path / "drafter", named, QWEN36_27B_SHAPES))) == {MASK: 248070}


def test_a_nameless_drafter_is_never_mended_by_its_shape(tmp_path, judge):
    judged = judge(drafter(tmp_path / "drafter", WRONG, QWEN36_27B_SHAPES))

    assert edits(judged) == {}
    assert told(judged, MASK) == [
        "warning: z-lab/Qwen3.6-27B-DFlash has 248070, and this drafter has its shapes, but not its name; "
        "if it is that one, say so with profile"
    ]


@pytest.mark.parametrize("profile", ["z-lab/Qwen3.6-27B-DFlash", "Qwen3.6-27B-DFlash", "QWEN3.6-27b-dflash"])
def test_the_user_says_which_drafter_it_is(profile, tmp_path, judge):
    path = drafter(tmp_path / "drafter", WRONG, QWEN36_27B_SHAPES)
    assert edits(judge(path, profile=profile)) == {MASK: 248070}


def test_no_catalogue_is_asked(tmp_path, judge):
    path = drafter(tmp_path / "Qwen3.6-27B-DFlash", WRONG, QWEN36_27B_SHAPES)
    assert (
        judge(path, profile="none").findings == judge(drafter(tmp_path / "x", QWEN36_27B, QWEN36_27B_SHAPES)).findings
    )


def test_a_wrong_profile_is_contradicted_by_the_weights(tmp_path, judge):
    judged = judge(drafter(tmp_path / "drafter", WRONG, QWEN36_27B_SHAPES), profile="Qwen3-8B-DFlash-b16")
    (why,) = told(judged, "hidden_size")
    assert why.startswith("error: contrary to the catalogue's z-lab/Qwen3-8B-DFlash-b16")


def test_an_unknown_profile_is_refused_with_the_nearest(tmp_path, call):
    result = call("drafter_info", path=drafter(tmp_path / "drafter", config()), profile="z-lab/Qwen3.6-27B-DFlush")
    assert result["msg"] == (
        "profile: no drafter of the catalogue goes by z-lab/Qwen3.6-27B-DFlush; the nearest is z-lab/Qwen3.6-27B-DFlash."
    )


def test_a_retrained_drafter_is_not_taken_for_its_former_self(tmp_path, judge):
    retrained = changed(QWEN36_27B, {MASK: 5, "num_hidden_layers": 6, "layer_types": [S] * 5 + [F]})
    judged = judge(drafter(tmp_path / "Qwen3.6-27B-DFlash", retrained, shapes(6, 5120, 17408, 32, 8, 128, ids=5)))

    assert edits(judged) == {}
    assert "retrained" in told(judged, "profile")[0]


def test_of_two_revisions_of_a_name_the_weights_choose(tmp_path, judge):
    """The first release of the 35B drafter had 8 layers; what is known of it isn't sure enough to mend."""
    old = changed(
        NESTED.config,
        {"num_hidden_layers": 8, "layer_types": [F] * 8, "num_key_value_heads": 4, IDS: [1, 10, 19, 28, 37]},
    )
    judged = judge(drafter(tmp_path / "Qwen3.5-35B-A3B-DFlash", old, shapes(8, 2048, 6144, 32, 4, 128, ids=5)))

    assert edits(judged) == {}
    assert told(judged, MASK) == [
        "warning: z-lab/Qwen3.5-35B-A3B-DFlash has 248070, and this drafter has its name, but what is known of that isn't sure; "
        "if it is that one, say so with profile"
    ]


@pytest.mark.parametrize("profile", ["auto", "mine"])
def test_the_users_own_profiles_come_first(profile, tmp_path, judge):
    path = drafter(tmp_path / ("mine" if profile == "auto" else "drafter"), config(**{MASK: 100}))
    own = {"mine": {"mask_token_id": "3", "some.key": 1}, "other": {"mask_token_id": 5}}
    assert edits(judge(path, profile=profile, profiles=own)) == {MASK: 3, "some.key": 1}


def test_a_profile_that_is_no_dictionary_is_refused(tmp_path, call):
    result = call("drafter_info", path=drafter(tmp_path / "drafter", config()), profiles={"mine": 3})
    assert result["msg"] == "profiles: mine must be a dictionary like values."


@pytest.mark.parametrize(
    "values",
    [
        {"dflash_config": {"mask_token_id": 5}},
        {"dflash_config.mask_token_id": 5},
        {"mask_token_id": 5},
        {"mask_token_id": "5"},
    ],
)
def test_values_may_be_nested_dotted_or_named_as_another_format_does(values, tmp_path, judge):
    assert edits(judge(drafter(tmp_path / "drafter", config()), values=values)) == {MASK: 5}


def test_values_go_where_this_format_keeps_them(tmp_path, judge):
    path = drafter(tmp_path / "drafter", SPECULATORS.config, SPECULATORS.tensors)
    assert edits(judge(path, values={IDS: [2, 10, 18, 26, 34], "sliding_window": 512})) == {
        "aux_hidden_state_layer_ids": [3, 11, 19, 27, 35],
        "transformer_layer_config.sliding_window": 512,
    }
    path = drafter(tmp_path / "nested", NESTED.config, NESTED.tensors)
    assert edits(judge(path, values={"aux_hidden_state_layer_ids": list(range(2, 10)), "block_size": 8})) == {
        IDS: list(range(1, 9)),
        BLOCK: 8,
    }


def test_a_value_of_the_wrong_type_is_replaced_by_one_that_is_equal(tmp_path, judge):
    path = drafter(tmp_path / "drafter", config(**{MASK: 3.0, "use_sliding_window": 1, "rope_theta": 10000}))
    judged = judge(path, values={MASK: 3, "use_sliding_window": True, "rope_theta": 10000.0})
    assert (edits(judged), judged.remaining) == ({MASK: 3, "use_sliding_window": True}, [])


def test_what_is_no_fact_is_written_as_it_is_said(tmp_path, judge):
    assert edits(judge(drafter(tmp_path / "drafter", config()), values={"a": {"b.c": [1]}, "auto_map": None})) == {
        "a.b.c": [1],
        "auto_map": None,
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_act.x": 1}, "hidden_act.x leads through a value that is no section of the config."),
        ({"architectures.0": "X"}, "architectures.0 can't be asserted by itself; assert the whole of architectures."),
        ({IDS: {"0": 1}}, None),
    ],
)
def test_a_value_for_a_place_that_cannot_be_is_refused(values, message, tmp_path, call):
    path = drafter(tmp_path / "drafter", config())
    result = call("drafter_config", path=path, dest=tmp_path / "overlay", values=values)
    assert result["failed"]
    assert message in (None, result["msg"])
    assert not (tmp_path / "overlay").exists()


def test_a_reference_is_believed_after_the_values_and_before_the_catalogue(tmp_path, judge):
    reference = tmp_path / "reference/config.json"
    reference.parent.mkdir()
    reference.write_text(json.dumps(changed(QWEN36_27B, {MASK: 20, "block_size": 20, "sliding_window": 20})))
    path = drafter(tmp_path / "Qwen3.6-27B-DFlash", WRONG, QWEN36_27B_SHAPES)
    judged = judge(path, reference=reference, values={"block_size": 10, "use_sliding_window": True})

    assert edits(judged) == {MASK: 20, "block_size": 10, "sliding_window": 20}
    sources = {f.key: f.evidence for f in judged.findings}
    assert (sources[MASK], sources["block_size"]) == (f"the reference {reference}", "your values")


def test_a_reference_of_another_format_is_understood(tmp_path, judge):
    """The form since June 2026 as the reference of one that is older: same facts, other places."""
    older = {k: v for k, v in NESTED.config.items() if k != "rope_parameters"}
    older = changed(older, {"rope_theta": 10000, "block_size": 8, BLOCK: DROP, MASK: 7})
    reference = tmp_path / "reference.json"
    reference.write_text(json.dumps(NESTED.config))
    judged = judge(drafter(tmp_path / "drafter", older, NESTED.tensors), reference=reference)

    assert edits(judged) == {MASK: 248077, "block_size": 16, "rope_theta": 10000000}


def test_a_reference_that_the_weights_contradict_is_an_error(tmp_path, judge):
    reference = tmp_path / "reference.json"
    reference.write_text(json.dumps(config(**{IDS: [1, 3]})))
    judged = judge(drafter(tmp_path / "drafter", config()), reference=reference)
    assert f"error: contrary to the reference {reference}, there are 2" in told(judged, IDS)[0]


@pytest.mark.parametrize(
    ("text", "cause"), [("{", "is no JSON"), ("{}", "is no DFlash drafter's config"), (None, "can't be read")]
)
def test_an_unreadable_reference_is_named(text, cause, tmp_path, call):
    if text is not None:
        (tmp_path / "reference.json").write_text(text)
    result = call("drafter_info", path=drafter(tmp_path / "drafter", config()), reference=tmp_path / "reference.json")
    assert result["failed"]
    assert f"{tmp_path / 'reference.json'} {cause}" in result["msg"]


def test_a_hubs_cache_is_read_through_its_links(tmp_path, judge):
    blobs = tmp_path / "models--z-lab--Qwen3.6-27B-DFlash/blobs"
    snapshot = tmp_path / "models--z-lab--Qwen3.6-27B-DFlash/snapshots/f00d"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "1").write_text(json.dumps(WRONG))
    write_safetensors(blobs / "2", QWEN36_27B_SHAPES)
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (snapshot / "model.safetensors").symlink_to("../../blobs/2")

    assert edits(judge(snapshot)) == {MASK: 248070}
    assert edits(judge(snapshot / "config.json")) == {MASK: 248070}

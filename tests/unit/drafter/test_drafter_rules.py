"""Every rule: what it finds, what it would write, and what it leaves alone. Each row spoils one thing of a right drafter."""

from __future__ import annotations

import math

import pytest
from published import PUBLISHED, QWEN36_27B, QWEN36_27B_SHAPES
from synthetic import DROP, TINY, F, S, changed, config, drafter, shapes, target

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats, loading
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import Case
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import Effective
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.engines import Engine
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Weights

MASK, IDS = "dflash_config.mask_token_id", "dflash_config.target_layer_ids"
TOKENS = "speculators_config.proposal_methods.0.speculative_tokens"
NOTHING = object()
(SPECULATORS,) = [p for p in PUBLISHED if p.name == "RedHatAI/Qwen3-8B-speculator.dflash"]
(DFLASH2,) = [p for p in PUBLISHED if "DFlash2" in p.name]


@pytest.fixture
def find(tmp_path, judge):
    """The findings about a config that lies beside weights and, if wanted, with a target."""

    def run(document, tensors=None, its_target=None, **params):
        if its_target is not None:
            params["target"] = target(tmp_path / "target", **its_target)
        return judge(drafter(tmp_path / "drafter", document, tensors), **params)

    return run


def only(judged, key, severity="error"):
    (finding,) = [f for f in judged.findings if f.key == key and f.severity == severity]
    return finding


@pytest.mark.parametrize(
    ("changes", "key", "wanted", "why"),
    [
        pytest.param({MASK: DROP}, MASK, NOTHING, "the engine needs one", id="no mask"),
        pytest.param({MASK: None}, MASK, NOTHING, "the engine needs one", id="null mask"),
        pytest.param({MASK: "3"}, MASK, 3, "a string is no token", id="mask as a string"),
        pytest.param({MASK: "three"}, MASK, NOTHING, "no whole number", id="mask as a word"),
        pytest.param({MASK: 3.0}, MASK, NOTHING, "no whole number", id="mask with a fraction"),
        pytest.param({MASK: True}, MASK, NOTHING, "no whole number", id="mask as a truth"),
        pytest.param({MASK: [3]}, MASK, NOTHING, "no whole number", id="mask as a list"),
        pytest.param({MASK: -1}, MASK, NOTHING, "rows 0 to 511", id="negative mask"),
        pytest.param({MASK: 512}, MASK, NOTHING, "rows 0 to 511", id="mask beyond the vocabulary"),
        pytest.param({MASK: 4}, MASK, NOTHING, "it is the pad token", id="mask is the pad"),
        pytest.param({MASK: 2}, MASK, NOTHING, "it is the eos token", id="mask is the eos"),
        pytest.param({"bos_token_id": 3}, MASK, NOTHING, "it is the bos token", id="mask is the bos"),
        pytest.param({"eos_token_id": [2, 3]}, MASK, NOTHING, "it is the eos token", id="mask is one eos of several"),
        pytest.param({IDS: DROP}, IDS, NOTHING, "silently takes layers of its own", id="no ids"),
        pytest.param({IDS: []}, IDS, NOTHING, "silently takes layers of its own", id="empty ids"),
        pytest.param({IDS: "1,3,5"}, IDS, NOTHING, "no list of whole numbers", id="ids as a string"),
        pytest.param({IDS: [1, 3, "5"]}, IDS, NOTHING, "no list of whole numbers", id="an id as a string"),
        pytest.param({IDS: [1, 5, 3]}, IDS, NOTHING, "each once and rising", id="ids out of order"),
        pytest.param({IDS: [1, 3, 3]}, IDS, NOTHING, "each once and rising", id="an id twice"),
        pytest.param({IDS: [-1, 3, 5]}, IDS, NOTHING, "each once and rising", id="a negative id"),
        pytest.param({IDS: [1, 3]}, IDS, NOTHING, "there are 2, and the weights take 3 layers, each 64 wide", id="few ids"),
        pytest.param({IDS: [1, 2, 3, 5]}, IDS, NOTHING, "there are 4, and the weights take 3", id="many ids"),
        pytest.param({IDS: [1, 3, 8]}, IDS, NOTHING, "the layers 0 to 7", id="ids beyond the target"),
        pytest.param({IDS: [2, 4, 6]}, IDS, NOTHING, "shift by one already in them", id="shifted ids"),
        pytest.param({"layer_types": [S, S]}, "layer_types", NOTHING, "there are 2 for 3 layers", id="few types"),
        pytest.param({"layer_types": [S] * 4}, "layer_types", NOTHING, "there are 4 for 3 layers", id="many types"),
        pytest.param({"layer_types": "S"}, "layer_types", NOTHING, "no list of words", id="types as a word"),
        pytest.param({"layer_types": [S, S, "slide"]}, "layer_types", NOTHING, "slide is no kind of layer", id="unknown type"),
        pytest.param({"layer_types": [S, S, "conv"]}, "layer_types", NOTHING, "takes every other word for", id="another type"),
        pytest.param({"is_causal": "false"}, "is_causal", False, "must be true or false", id="causality as a word"),
        pytest.param({"dflash_config.causal": 0}, "dflash_config.causal", NOTHING, "true or false", id="causality as a number"),
        pytest.param({"layer_types": [F] * 3}, "layer_types", NOTHING, "used by no layer", id="a window for nobody"),
        pytest.param({"layer_types": DROP}, "layer_types", NOTHING, "the window is lost", id="no types"),
        pytest.param({"layer_types": None}, "layer_types", NOTHING, "the window is lost", id="null types"),
        pytest.param({"sliding_window": DROP}, "sliding_window", NOTHING, "silently 4096", id="no window"),
        pytest.param({"sliding_window": None}, "sliding_window", NOTHING, "over no window", id="null window"),
        pytest.param({"sliding_window": 0}, "sliding_window", NOTHING, "above 0", id="window of 0"),
        pytest.param({"sliding_window": "24"}, "sliding_window", 24, "must be a whole number or null", id="window as a string"),
        pytest.param({"sliding_window": 8}, "sliding_window", NOTHING, "no wider than the block of 8", id="narrow window"),
        pytest.param({"sliding_window": 4096}, "sliding_window", NOTHING, "wider than the 512 positions", id="wide window"),
        pytest.param({"use_sliding_window": False}, "use_sliding_window", True, "drops the window of 24", id="window unused"),
        pytest.param({"use_sliding_window": DROP}, "use_sliding_window", True, "drops the window of 24", id="window unsaid"),
        pytest.param({"use_sliding_window": "true"}, "use_sliding_window", True, "must be true or false", id="true as a word"),
        pytest.param({"block_size": 1}, "block_size", NOTHING, "2 at least", id="block of 1"),
        pytest.param({"block_size": "8"}, "block_size", 8, "a whole number", id="block as a string"),
        pytest.param({"dflash_config.block_size": 16}, "block_size", NOTHING, "contradicts itself", id="two blocks"),
        pytest.param({"num_speculative_tokens": 8}, "num_speculative_tokens", NOTHING, "of 8 drafts 7", id="tokens of the block"),
        pytest.param({"num_hidden_layers": 5}, "num_hidden_layers", 3, "another size", id="layers"),
        pytest.param({"num_hidden_layers": DROP}, "num_hidden_layers", 3, "silently 32", id="no layers"),
        pytest.param({"hidden_size": 128}, "hidden_size", 64, "another size", id="hidden size"),
        pytest.param({"head_dim": 16}, "head_dim", 32, "another size", id="head size"),
        pytest.param({"head_dim": DROP}, "head_dim", 32, "silently 128", id="no head size"),
        pytest.param({"num_attention_heads": 2}, "num_attention_heads", 4, "another size", id="heads"),
        pytest.param({"num_key_value_heads": None}, "num_key_value_heads", 2, "silently 4", id="no key heads"),
        pytest.param({"intermediate_size": 256}, "intermediate_size", 128, "another size", id="inner size"),
        pytest.param({"target_hidden_size": 100}, "target_hidden_size", NOTHING, "no multiple of 100", id="target's size"),
        pytest.param({"target_hidden_size": 0}, "target_hidden_size", NOTHING, "above 0", id="no target's size"),
        pytest.param({"target_hidden_size": "64"}, "target_hidden_size", 64, "above 0", id="target's size as a string"),
        pytest.param({"vocab_size": -5}, "vocab_size", NOTHING, "above 0", id="negative vocabulary"),
        pytest.param({"max_position_embeddings": 0}, "max_position_embeddings", NOTHING, "above 0", id="no positions"),
        pytest.param({"num_target_layers": "8"}, "num_target_layers", 8, "above 0", id="target's layers as a string"),
        pytest.param({"num_target_layers": [8]}, "num_target_layers", NOTHING, "above 0", id="target's layers as a list"),
        pytest.param({"rope_theta": None}, "rope_theta", NOTHING, "a number above 0", id="null rope"),
        pytest.param({"rope_theta": "10000"}, "rope_theta", 10000, "a number above 0", id="rope as a string"),
        pytest.param({"rope_theta": True}, "rope_theta", NOTHING, "a number above 0", id="rope as a truth"),
        pytest.param({"rope_theta": -1.0}, "rope_theta", NOTHING, "a number above 0", id="negative rope"),
        pytest.param({"rope_theta": math.nan}, "rope_theta", NOTHING, "a number above 0", id="rope that is no number"),
        pytest.param({"rope_theta": math.inf}, "rope_theta", NOTHING, "a number above 0", id="endless rope"),
        pytest.param({"attention_bias": True}, "attention_bias", False, "weights lack biases", id="biases"),
        pytest.param({"draft_vocab_size": -1}, "draft_vocab_size", NOTHING, "above 0", id="a choice of none"),
        pytest.param({"draft_vocab_size": 600}, "draft_vocab_size", NOTHING, "600 tokens out of 512", id="too many"),
        pytest.param({"draft_vocab_size": 100}, "draft_vocab_size", NOTHING, "needs the tensor d2t", id="a choice of tokens"),
        pytest.param({"architectures": DROP}, "architectures", ["DFlashDraftModel"], "choose a model", id="no architecture"),
        pytest.param({"architectures": ["Qwen3ForCausalLM"]}, "architectures", ["DFlashDraftModel"], "no drafter's", id="a target's"),
        pytest.param({"architectures": ["DFlash2DraftModel"]}, "architectures", ["DFlashDraftModel"], "weights lack", id="another's"),
        pytest.param({"architectures": ["MyDFlashDraftModel"]}, "architectures", ["DFlashDraftModel"], "no drafter's", id="nobody's"),
        pytest.param({"dflash_config": "no"}, "dflash_config", NOTHING, "must be a section", id="no section"),
        pytest.param({"tie_word_embeddings": "false"}, "tie_word_embeddings", False, "must be true or false", id="false as a word"),
        pytest.param({"rms_norm_eps": "tiny"}, "rms_norm_eps", NOTHING, "must be a number", id="an unreadable number"),
    ],
)  # fmt: skip
def test_an_error_names_its_key_and_mends_only_what_is_known(changes, key, wanted, why, find):
    judged = find(config(**changes))
    finding = only(judged, key)

    assert why in finding.why
    if wanted is NOTHING:
        assert key in {f.key for f in judged.remaining}
    else:
        assert (finding.wanted, judged.remaining) == (wanted, [])


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        pytest.param({IDS: [0, 1, 2]}, IDS, "usual would be [1, 3, 5]", id="ids off the formula"),
        pytest.param({"block_size": DROP}, "block_size", "nobody knows how many", id="no block"),
        pytest.param(
            {"layer_types": DROP, "max_window_layers": 1},
            "layer_types",
            "derived from max_window_layers 1",
            id="derived",
        ),
        pytest.param({"rope_theta": DROP}, "rope_theta", "silently 10000", id="no rope"),
        pytest.param(
            {"mask_token_id": 5}, MASK, "contradicts itself: dflash_config.mask_token_id 3 and", id="two masks"
        ),
        pytest.param({"target_layer_ids": [1, 2, 3]}, IDS, "contradicts itself", id="two lists of ids"),
        pytest.param({"architectures": ["DFlashNewModel"]}, "architectures", "has no such model", id="a new model"),
        pytest.param({"model_type": DROP}, "model_type", "may not know the file", id="no model type"),
    ],
)
def test_a_warning_names_its_key_and_changes_nothing(changes, key, why, find):
    judged = find(config(**changes))

    assert why in only(judged, key, "warning").why
    assert (judged.verdict.edits, judged.remaining) == ({}, [])


@pytest.mark.parametrize(
    ("its_target", "document", "key", "why"),
    [
        pytest.param({"num_hidden_layers": 5}, config(), IDS, "the layers 0 to 4", id="fewer layers"),
        pytest.param({"hidden_size": 128}, config(), "hidden_size", "belongs to another target", id="other size"),
        pytest.param({"vocab_size": 600}, config(), "vocab_size", "belongs to another target", id="other vocabulary"),
        pytest.param({"eos_token_id": [2, 3]}, config(), MASK, "it is the target's eos token", id="mask is an eos"),
        pytest.param(
            {"eos_token_id": 3}, config(eos_token_id=2), MASK, "it is the target's eos token", id="mask is its eos"
        ),
        pytest.param(
            {"text_config": {"num_hidden_layers": 5}}, config(), IDS, "the layers 0 to 4", id="a model that sees"
        ),
    ],
)
def test_the_target_is_evidence(its_target, document, key, why, find):
    assert why in only(find(document, its_target=its_target), key).why


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        pytest.param({}, "lack fc, which takes the target's hidden states", id="nothing"),
        pytest.param({k: v for k, v in TINY.items() if k != "fc.weight"}, "another model's", id="no fc"),
        pytest.param({k: v for k, v in TINY.items() if "layers." not in k}, "lack any layer", id="no layers"),
        pytest.param({k: v for k, v in TINY.items() if "layers.1." not in k}, "lack the layer 1", id="a layer lost"),
        pytest.param(
            {k: v for k, v in TINY.items() if k != "layers.1.mlp.up_proj.weight"},
            "lack layers.1.mlp.up_proj.weight",
            id="a tensor lost",
        ),
    ],
)
def test_weights_that_are_no_whole_drafter(tensors, why, find):
    judged = find(config(), tensors)
    assert why in only(judged, "config.json").why
    assert judged.verdict.edits == {}


def test_biases_that_the_weights_have_are_loaded(find):
    tensors = {**TINY, **{f"layers.{i}.self_attn.q_proj.bias": [128] for i in range(3)}}
    assert only(find(config(), tensors), "attention_bias").wanted is True
    assert find(config(attention_bias=True), tensors).findings == []


def test_a_drafter_without_fc_says_so(find):
    tensors = {k: v for k, v in TINY.items() if k != "fc.weight"}
    assert find(config(**{"dflash_config.use_aux_hidden_state": False}), tensors).findings == []


@pytest.mark.parametrize(
    ("values", "keys"),
    [({}, ["sliding_window", "block_size"]), ({"sliding_window": 24}, ["block_size"]), ({"block_size": 32}, ["sliding_window"])],
)  # fmt: skip
def test_a_block_and_a_window_that_exclude_each_other(values, keys, find):
    """Nothing says which of the two is wrong, unless somebody vouches for one."""
    assert [f.key for f in find(config(block_size=32), values=values).remaining] == keys


def test_what_the_engine_needs_is_not_contrary_to_who_vouches_for_it(find):
    judged = find(MIXED, values={"layer_types": MIXED["layer_types"]})
    assert only(judged, "layer_types", "note").why.startswith("sliding and full layers")


def test_who_has_asserted_a_value_is_not_told_to(find):
    judged = find(config(**{MASK: 4}), values={MASK: 3})
    assert str(only(judged, MASK)) == (
        "dflash_config.mask_token_id: found 4, wanted 3 — it is the pad token, which stands for something else (your values)"
    )


def test_a_message_stays_readable(find):
    judged = find(config(**{MASK: "x\n\x1b[31m" + "y" * 10**5}))
    (told,) = map(str, judged.remaining)
    assert "\n" not in told and "\x1b" not in told and len(told) < 500
    assert len(str(find(config(**{IDS: ["a", "b"] * 10**4})).remaining[0])) < 500


def test_a_drafter_with_its_own_embeddings_may_differ_in_size(find):
    judged = find(config(), {**TINY, "embed_tokens.weight": [512, 64]}, {"hidden_size": 96})
    assert [f.key for f in judged.remaining] == ["target_hidden_size"]
    judged = find(config(), {**TINY, "embed_tokens.weight": [512, 64], "fc.weight": [64, 288]}, {"hidden_size": 96})
    assert (judged.verdict.edits, judged.remaining) == ({("target_hidden_size",): 96}, [])
    judged = find(
        config(target_hidden_size=96),
        {**TINY, "embed_tokens.weight": [512, 64], "fc.weight": [64, 288]},
        {"hidden_size": 96},
    )
    assert judged.findings == []


@pytest.mark.parametrize("found", [0, 4, 600, None, 300])
def test_the_token_named_the_mask_mends(found, find):
    judged = find(config(**{MASK: found}), its_target={})

    assert only(judged, MASK).wanted == 3
    assert "mask_token <|mask|>" in only(judged, MASK).evidence
    assert judged.verdict.mended.get("mask_token_id") == 3


def test_a_mask_named_by_the_config_mends(find):
    named = config(**{MASK: 100, "dflash_config.mask_token": "<|im_start|>"})
    assert only(find(named, its_target={}), MASK).wanted == 1


def test_an_asserted_mask_may_be_another_than_the_named_one(find):
    judged = find(config(**{MASK: 4}), its_target={}, values={MASK: 100})

    assert judged.verdict.mended.get("mask_token_id") == 100
    assert "the token named the mask is <|mask|>, 3" in only(judged, MASK, "warning").why


def test_an_asserted_value_against_the_weights_is_an_error_that_shows_both_sides(find):
    judged = find(
        config(), values={"dflash_config": {"target_layer_ids": [1, 3]}, "num_hidden_layers": 4, "layer_types": [S] * 4}
    )
    told = {f.key: str(f) for f in judged.remaining}

    assert "found [1, 3] — contrary to your values, there are 2, and the weights take 3 layers" in told[IDS]
    assert "model.safetensors: fc.weight is [64, 192]" in told[IDS]
    assert "contrary to your values, the weights have another size" in told["num_hidden_layers"]


def test_an_asserted_value_against_the_target_is_an_error(find):
    assert (
        "contrary to your values, it is the target's pad token"
        in only(find(config(), its_target={}, values={MASK: 4}), MASK).why
    )


def test_what_only_looks_wrong_is_settled_by_an_assertion(find):
    settled = {IDS: [2, 4, 6], "layer_types": [S, S, S], "sliding_window": 4096}
    judged = find(config(**settled), values=settled)
    assert (judged.findings, judged.verdict.edits) == ([], {})


def test_config_and_weights_of_two_revisions_are_refused(find):
    """As a drafter was whose repository was retrained in place: 4 layers and 6 ids, then 6 layers and 8 ids."""
    old = config(num_hidden_layers=4, layer_types=[S] * 4, **{IDS: [0, 1, 2, 3, 4, 5]})
    judged = find(old, shapes(6, 64, 128, 4, 2, 32, ids=8))

    revisions = only(judged, "config.json")
    assert revisions.found == ["num_hidden_layers", IDS]
    assert "as those of another revision do" in revisions.why
    assert judged.verdict.edits == {}


def test_a_drafter_of_another_target_is_refused(find):
    """The drafter of a target of 36 layers beside one of 32."""
    document = changed(QWEN36_27B, {IDS: [1, 9, 17, 25, 33], "hidden_size": 2560})
    judged = find(
        document,
        shapes(5, 2560, 17408, 32, 8, 128, ids=5),
        {"num_hidden_layers": 32, "hidden_size": 2560, "vocab_size": 248320},
    )
    assert "the target has the layers 0 to 31" in only(judged, IDS).why


MIXED = config(layer_types=[S, S, F])


@pytest.mark.parametrize(
    ("document", "engine", "key", "severity", "why"),
    [
        pytest.param(config(), {"version": "0.19.1"}, "architectures", "error", "before 0.20", id="no DFlash"),
        pytest.param(config(), {"version": "0.20.0"}, IDS, "warning", "lacks #40727", id="ids not shifted"),
        pytest.param(config(), {"version": "0.24.3"}, "layer_types", "error", "ignores a drafter's window", id="no windows"),
        pytest.param(config(), {"version": "0.20.1.dev8+ga8062413a"}, "layer_types", "warning", "ignores", id="from source"),
        pytest.param(MIXED, {"version": "0.25.1"}, "layer_types", "error", "0.25 refuses", id="mixed, too old"),
        pytest.param(MIXED, {"version": "0.26.0", "runner": "v1"}, "layer_types", "error", "V1 model runner refuses", id="mixed, V1"),
        pytest.param(MIXED, {"version": "0.32.0", "runner": "v1"}, "layer_types", "error", "V1 model runner refuses", id="mixed, new"),
        pytest.param(MIXED, {"version": "0.26.0"}, "layer_types", "note", "its V2 model runner", id="mixed, runner unknown"),
        pytest.param(MIXED, {}, "layer_types", "note", "its V2 model runner", id="mixed, engine unknown"),
        pytest.param(
            config(quantization_config={"quant_method": "fp8"}), {"version": "0.29.0"}, "quantization_config", "error", "#51581",
            id="quantised, too old",
        ),
        pytest.param(config(quantization_config={}), {}, "quantization_config", "note", "#51581", id="quantised"),
    ],
)  # fmt: skip
def test_the_engine_is_asked(document, engine, key, severity, why, find):
    assert why in only(find(document, engine=engine), key, severity).why


@pytest.mark.parametrize(
    ("document", "engine"),
    [
        (config(), {"version": "0.25.0"}),
        (config(), {"version": "0.32.0", "runner": "v1"}),
        (MIXED, {"version": "0.26.0", "runner": "v2"}),
        (MIXED, {"version": "0.32.0+cpu"}),
        (config(quantization_config={}), {"version": "0.32.1.dev2+ga8062413a.cpu"}),
        (config(layer_types=[F] * 3, sliding_window=None, use_sliding_window=False), {"version": "0.22.0"}),
    ],
)
def test_an_engine_that_can_is_not_mentioned(document, engine, find):
    assert find(document, engine=engine).findings == []


def test_the_engine_decides_what_it_will_log(find):
    assert find(config(), engine={"version": "0.21.0"}).public()["expected_aux_layers"] == [1, 3, 5]
    assert find(config(), engine={"version": "0.22.0"}).public()["expected_aux_layers"] == [2, 4, 6]
    old = find(SPECULATORS.config, SPECULATORS.tensors, engine={"version": "0.21.0"})
    assert old.public()["expected_aux_layers"] == [2, 10, 18, 26, 34]


@pytest.mark.parametrize("version", ["0.27.0", "0.32.0"])
def test_dflash2_needs_a_new_engine_and_its_second_runner(version, find):
    judged = find(DFLASH2.config, DFLASH2.tensors, engine={"version": version, "runner": "v1"})
    assert "vLLM 0.28 and its V2 model runner" in only(judged, "architectures").why


def test_speculators_drafters_on_the_second_runner_of_025(find):
    judged = find(SPECULATORS.config, SPECULATORS.tensors, engine={"version": "0.25.1", "runner": "v2"})
    assert "accept none" in only(judged, "aux_hidden_state_layer_ids", "warning").why


@pytest.mark.parametrize(
    ("changes", "key", "wanted"),
    [
        pytest.param({TOKENS: 8}, TOKENS, NOTHING, id="tokens of the block"),
        pytest.param({"sample_from_anchor": True, TOKENS: 7}, TOKENS, NOTHING, id="the anchor is sampled, too"),
        pytest.param({"aux_hidden_state_layer_ids": [2, 10, 18]}, "aux_hidden_state_layer_ids", NOTHING, id="few ids"),
        pytest.param(
            {"aux_hidden_state_layer_ids": [0, 10, 18, 26, 34]}, "aux_hidden_state_layer_ids", NOTHING, id="no layer 0"
        ),
        pytest.param({"draft_vocab_size": 16000}, "draft_vocab_size", 32000, id="vocabulary of the head"),
        pytest.param(
            {"transformer_layer_config.layer_types": [S] * 5},
            "transformer_layer_config.sliding_window",
            NOTHING,
            id="window",
        ),
        pytest.param(
            {"transformer_layer_config.head_dim": 64}, "transformer_layer_config.head_dim", 128, id="head size"
        ),
    ],
)
def test_a_speculators_config_is_judged_in_its_own_keys(changes, key, wanted, find):
    judged = find(changed(SPECULATORS.config, changes), SPECULATORS.tensors)
    errors = {f.key: f.wanted for f in judged.findings if f.severity == "error"}
    assert set(errors) - {"block_size"} == {key}
    assert wanted is NOTHING or errors[key] == wanted


CONVOLVING = {"layers.0.attention_conv.base_kernel": [2, 2, 64]}


@pytest.mark.parametrize(
    ("changes", "tensors", "key", "wanted"),
    [
        pytest.param({"speculators_model_type": DROP}, {}, "speculators_model_type", "dflash", id="no kind"),
        pytest.param({"speculators_model_type": "dflash2"}, {}, "speculators_model_type", "dflash", id="a newer kind"),
        pytest.param({}, CONVOLVING, "speculators_model_type", "dflash2", id="an older kind"),
        pytest.param({"speculators_config": DROP}, {}, "speculators_config", None, id="no section"),
        pytest.param({"speculators_config": []}, {}, "speculators_config", None, id="an empty list"),
    ],
)
def test_the_kind_of_a_speculators_config(changes, tensors, key, wanted, find):
    judged = find(changed(SPECULATORS.config, changes), {**SPECULATORS.tensors, **tensors})
    assert only(judged, key).public()["wanted"] == wanted
    assert (key in {f.key for f in judged.remaining}) is (wanted is None)


def test_a_speculators_drafter_may_be_a_dflash2(find):
    document = changed(SPECULATORS.config, {"speculators_model_type": "dflash2"})
    judged = find(document, {**SPECULATORS.tensors, **CONVOLVING}, engine={"version": "0.27.0"})
    assert "vLLM 0.28" in only(judged, "architectures").why
    assert "needs a whole number" in only(judged, "selector_top_k").why


def test_a_head_size_that_the_engine_derives_may_be_left_out(find):
    assert (
        find(changed(SPECULATORS.config, {"transformer_layer_config.head_dim": DROP}), SPECULATORS.tensors).findings
        == []
    )


def test_the_anchor_may_be_sampled_from(find):
    sampled = changed(SPECULATORS.config, {"sample_from_anchor": True, TOKENS: 8})
    assert find(sampled, SPECULATORS.tensors).public()["num_speculative_tokens"] == 8


MIMO = {
    "block_size": 8,
    "mask_token_id": 3,
    "target_layer_ids": [1, 3, 5],
    "use_swa": True,
    "swa_window_size": 24,
    "causal": False,
}
BARE = {
    "layer_types": DROP,
    "sliding_window": DROP,
    "use_sliding_window": DROP,
    "max_window_layers": DROP,
    "block_size": DROP,
}


def test_a_mimo_drafter_keeps_its_window_in_its_own_section(find):
    judged = find(config(**BARE, dflash_config=MIMO))
    assert (judged.case.form.name, judged.findings) == ("mimo", [])


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"swa_window_size": 4}, "dflash_config.swa_window_size", "no wider than the block"),
        ({"swa_window_size": None}, "dflash_config.swa_window_size", "over no window"),
    ],
)
def test_a_mimo_window_is_judged(changes, key, why, find):
    assert why in only(find(config(**BARE, dflash_config={**MIMO, **changes})), key).why


def test_a_dflash2_section_is_completed_from_the_weights(find):
    torn = changed(DFLASH2.config, {"dflash_config.conv_kernel_size": DROP, "dflash_config.selector_rank": DROP})
    judged = find(torn, DFLASH2.tensors)
    assert (judged.remaining, judged.case.config) == ([], DFLASH2.config)


def test_the_window_of_the_issue_is_kept_by_what_is_written_with_it(find):
    """A window and types that are right, and neither of the keys that make the loader keep them."""
    document = changed(QWEN36_27B, {"use_sliding_window": DROP, "max_window_layers": DROP})
    judged = find(document, QWEN36_27B_SHAPES)
    assert {path[0]: value for path, value in judged.verdict.edits.items()} == {
        "use_sliding_window": True,
        "max_window_layers": 5,
    }
    assert judged.effective["sliding_window"] == 2048


def test_where_transformers_differs_from_the_prediction_is_said():
    """With another release than the one that was measured. The answer is made up: only the measured one is at hand."""
    case = Case(config(), formats.ZLAB_LEGACY, Weights({}, {}), None, Engine())
    answer = Effective({**case.effective.values, "sliding_window": None})
    (finding,) = loading.compare(case, answer, "/a/python")
    assert str(finding) == (
        "sliding_window: found 24 — loaded it is null, where 24 was expected (the transformers of /a/python)"
    )
    (finding,) = loading.compare(case, Effective({}, ("config.json", "no such model")), "/a/python")
    assert (finding.severity, finding.why) == ("error", "the loader refuses the file: no such model")

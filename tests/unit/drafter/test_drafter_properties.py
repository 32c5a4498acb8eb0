"""Whatever the config says: no traceback, nothing written that is then found fault with, and no second mend."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published import PUBLISHED
from synthetic import TINY, changed, config, drafter, target

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking, formats
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

DEFAULTS = {name: spec.get("default") for name, spec in asking.ARGUMENTS.items()}
SPECULATORS = next(p for p in PUBLISHED if "speculator" in p.name)
CONVOLVING = next(p for p in PUBLISHED if "DFlash2" in p.name)
BASES = [(config(), TINY), (SPECULATORS.config, SPECULATORS.tensors), (CONVOLVING.config, CONVOLVING.tensors)]

numbers = st.integers(-3, 600) | st.integers() | st.floats(allow_nan=False)
words = st.sampled_from(["3", "24", "true", "sliding_attention", "full_attention", "DFlashDraftModel", ""]) | st.text(
    max_size=4
)
leaves = st.none() | st.booleans() | numbers | words
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(words, inner, max_size=3), max_leaves=8
)
paths = st.sampled_from(sorted({formats.key(p) for form in formats.FORMATS for ps in form.places.values() for p in ps}))
engines = st.none() | st.fixed_dictionaries(
    {
        "version": st.sampled_from(["0.20.0", "0.25.1", "0.28.0", "0.32.0+cpu"]),
        "runner": st.sampled_from([None, "v1", "v2"]),
    }
)


def spoil(base, changes):
    """The changes that lead somewhere, made."""
    for key, value in changes.items():
        try:
            base = changed(base, {key: value})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue
    return base


def mend(path, **params):
    """What drafter_config does with a drafter, short of the writing; None if there is nothing to judge."""
    try:
        judged = asking.judge({**DEFAULTS, "path": str(path), **params}, mended=True)
    except RefusedError:
        return None
    text = judged.text()
    json.dumps(judged.public())
    assert not judged.remaining or judged.drafter.directory in judged.complaint()
    return judged, text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(BASES),
    st.dictionaries(paths, values, max_size=4),
    st.dictionaries(paths, values, max_size=2),
    engines,
    st.booleans(),
)
def test_what_is_written_is_never_found_fault_with(base, changes, asserted, engine, with_target):
    with tempfile.TemporaryDirectory() as directory:
        path = drafter(Path(directory) / "drafter", spoil(base[0], changes), base[1])
        params = {"values": asserted, "engine": engine}
        if with_target:
            params["target"] = str(target(Path(directory) / "target"))
        first = mend(path, **params)
        if first is None or first[0].remaining:
            return
        (path / "config.json").write_text(first[1], encoding="utf-8")
        again = mend(path, **params)

        assert again is not None
        assert [f for f in again[0].findings if f.severity == "error"] == []
        assert again[0].verdict.edits == {}
        unasserted = mend(path, engine=engine)
        assert unasserted is not None


@settings(max_examples=150, deadline=None)
@given(st.one_of(values, st.dictionaries(paths, values, max_size=5)))
def test_any_json_is_judged_or_refused(document):
    with tempfile.TemporaryDirectory() as directory:
        mend(drafter(Path(directory) / "drafter", json.dumps(document)))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_refused(text, weights):
    with tempfile.TemporaryDirectory() as directory:
        path = drafter(Path(directory) / "drafter", config())
        (path / "model.safetensors").write_bytes(weights)
        assert mend(path) is None
        (path / "config.json").write_bytes(text)
        assert mend(path) is None


shapes = st.lists(st.integers(0, 2**40) | st.just(64), max_size=3)
tensors = st.dictionaries(
    st.sampled_from([*TINY, "lm_head.weight", "layers.1.attention_conv.base_kernel", "d2t"]), shapes, max_size=12
)


@settings(max_examples=100, deadline=None)
@given(tensors, st.sampled_from(["F32", "BF16", "U8", "I64", "X"]))
def test_any_shapes_are_judged_or_refused(found, dtype):
    header = {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, shape in found.items()}
    raw = json.dumps(header).encode()
    with tempfile.TemporaryDirectory() as directory:
        path = drafter(Path(directory) / "drafter", config())
        (path / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw)
        mend(path)

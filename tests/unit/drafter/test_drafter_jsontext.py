"""Changing a JSON document as text: the values asked for, and not one byte more."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import formats, jsontext

SORTED = '{\n  "a": 1,\n  "name": "人 \\u4e2d",\n  "z": [\n    1,\n    2\n  ]\n}\n'


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        pytest.param(SORTED, ("a",), 2, SORTED.replace('"a": 1', '"a": 2'), id="only that value"),
        pytest.param(
            SORTED, ("z",), [3], SORTED.replace("    1,\n    2\n", "    3\n"), id="a list in the file's own style"
        ),
        pytest.param(SORTED, ("z", 1), 9, SORTED.replace("    2\n", "    9\n"), id="an item of a list"),
        pytest.param(
            SORTED, ("k",), True, SORTED.replace('  "name"', '  "k": true,\n  "name"'), id="a new key in its order"
        ),
        pytest.param(SORTED, ("0",), 0, SORTED.replace('  "a"', '  "0": 0,\n  "a"'), id="a new first key"),
        pytest.param(SORTED, ("zz",), 0, SORTED.replace("  ]\n", '  ],\n  "zz": 0\n'), id="a new last key"),
        pytest.param(
            SORTED,
            ("n", "m"),
            0,
            SORTED.replace('  "name"', '  "n": {\n    "m": 0\n  },\n  "name"'),
            id="a new section",
        ),
        pytest.param('{"a": [1, 2], "b": 3}', ("a",), [4, 5], '{"a": [4, 5], "b": 3}', id="on one line"),
        pytest.param('{"a":[1,2],"b":3}', ("b",), {"c": [1]}, '{"a":[1,2],"b":{"c":[1]}}', id="without a space"),
        pytest.param('{"a":1}', ("b",), 2, '{"a":1,"b":2}', id="a new key without a space"),
        pytest.param('{\n\t"a": [1, 2]\n}', ("a",), [3, 4], '{\n\t"a": [3, 4]\n}', id="a list on one line in many"),
        pytest.param(
            '{\r\n  "a": 1\r\n}', ("b",), [2], '{\r\n  "a": 1,\r\n  "b": [\r\n    2\r\n  ]\r\n}', id="Windows lines"
        ),
        pytest.param("{}", ("a",), 1, '{"a": 1}', id="into nothing"),
        pytest.param('{"a": 1e3, "a": 2}', ("a",), 3, '{"a": 1e3, "a": 3}', id="the one of two that counts"),
        pytest.param('{"a": null}', ("a", "b"), 3, '{"a": {"b": 3}}', id="a null section"),
        pytest.param('{"a": {}}', ("a", "b"), 3, '{"a": {"b": 3}}', id="an empty section"),
        pytest.param(
            '{\n  "a": {}\n}', ("a", "b"), 3, '{\n  "a": {\n    "b": 3\n  }\n}', id="an empty section in many lines"
        ),
        pytest.param('{"a": "}\\"{", "b": 1}', ("b",), 2, '{"a": "}\\"{", "b": 2}', id="braces in strings"),
        pytest.param('{"a": 1.0e7, "b": NaN}', ("a",), 2, '{"a": 2, "b": NaN}', id="numbers as they were spelt"),
        pytest.param('{"é": 1}', ("ü",), "ö", '{"é": 1, "ü": "ö"}', id="characters as they are"),
        pytest.param(
            '{"\\u00e9": 1}', ("ü",), "ö", '{"\\u00e9": 1, "\\u00fc": "\\u00f6"}', id="escapes where the file has them"
        ),
    ],
)
def test_changes_what_is_asked_for(before, path, value, after):
    assert jsontext.set_value(before, path, value) == after


@pytest.mark.parametrize("path", [("a", "b"), ("z", 2), ("z", "x"), ("n", 0), (), ("z", 0, "y")])
def test_a_place_that_cannot_be_is_refused(path):
    with pytest.raises(jsontext.NoSuchPlaceError):
        jsontext.set_value(SORTED, path, 1)


leaves = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
documents = st.dictionaries(st.text(), values, max_size=6)


@given(
    documents,
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
    values,
    st.sampled_from([None, 1, 2, "\t"]),
    st.booleans(),
)
def test_the_text_means_what_the_value_means(document, path, value, indent, ascii_only):
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    try:
        formats.put(document, tuple(path), value)
    except jsontext.NoSuchPlaceError:
        with pytest.raises(jsontext.NoSuchPlaceError):
            jsontext.set_value(text, tuple(path), value)
    else:
        assert json.loads(jsontext.set_value(text, tuple(path), value)) == document

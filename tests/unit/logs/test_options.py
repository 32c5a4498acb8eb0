"""What users write is understood, or refused by name."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs import options
from ansible_collections.llmops.vllm.plugins.module_utils._logs.options import OptionError

NOTHING = {"ready": [], "failed": [], "ignore": [], "stages": [], "profile": "vllm"}


def test_a_pattern_is_an_expression_or_tells_more():
    own = {
        "pattern": "no licence",
        "name": "licence",
        "kind": "licence",
        "hint": "Buy one.",
        "sample": "gave up: no licence",
    }
    profile = options.profile(
        {**NOTHING, "ready": ["^DONE$"], "failed": [own], "stages": [r"^\[\d\]"], "profile": "none"}
    )
    assert [p.regex.pattern for p in profile.ready] == ["^DONE$"]
    assert [(p.name, p.kind, p.hint) for p in profile.failed] == [("licence", "licence", "Buy one.")]
    assert [s.regex.pattern for s in profile.stages] == [r"^\[\d\]"]
    assert not profile.vllm


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ready": ["("]}, "ready: '(' is not a regular expression"),
        ({"stages": ["["]}, "stages: '[' is not a regular expression"),
        (
            {"failed": [{"patern": "x"}]},
            "failed: patern is not known here, only pattern, name, kind, hint, sample are.",
        ),
        ({"failed": [{"name": "x"}]}, "failed: {'name': 'x'} is neither a regular expression nor a dictionary"),
        ({"failed": [7]}, "failed: 7 is neither a regular expression nor a dictionary"),
        ({"ignore": [{"pattern": "x", "sample": "y"}]}, "ignore: 'x' does not match its own sample 'y'"),
    ],
)
def test_a_pattern_that_is_none(given, message):
    with pytest.raises(OptionError) as error:
        options.profile({**NOTHING, **given})
    assert message in str(error.value)


def test_marks():
    assert options.mark(None) is None
    assert options.mark({"path": "/x", "device": "1", "inode": 2, "offset": 3}) == {
        "path": "/x", "device": 1, "inode": 2, "offset": 3
    }  # fmt: skip
    assert options.mark({"unit": "vllm.service", "cursor": "s=1"}) == {"unit": "vllm.service", "cursor": "s=1"}
    assert options.mark({"unit": "vllm.service", "cursor": ""}) == {"unit": "vllm.service", "cursor": ""}  # nothing yet
    for wrong in ({"inode": 1}, {"device": "x", "inode": 1, "offset": 1}, {"device": 1, "inode": None, "offset": 1}):
        with pytest.raises(OptionError, match="device, inode and offset have to be numbers"):
            options.mark(wrong)
    with pytest.raises(OptionError, match="no number in one is negative"):
        options.mark({"device": 1, "inode": 2, "offset": -3})


@pytest.mark.parametrize(
    "text", ["here", "127.0.0.1:8000/v1", "http://", "http://127.0.0.1:bad/", "ftp://a/", "http://[::1/"]
)
def test_addresses_that_are_none(text):
    with pytest.raises(OptionError, match="is not an address like"):
        options.url(text)


def test_addresses():
    assert options.url("https://[::1]:8000/v1/models") == "https://[::1]:8000/v1/models"

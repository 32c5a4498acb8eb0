"""A vLLM command line is read as vLLM reads it."""

from __future__ import annotations

import json

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.cmdline import (
    DEEPEST,
    long_name,
    parse,
    read,
    words_of_server,
)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("/venv/bin/python /venv/bin/vllm serve /models/a --port 1", "/models/a --port 1"),
        ("python3 -m vllm.entrypoints.openai.api_server --model a", "--model a"),
        ("python -m vllm.entrypoints.cli.main serve a", "a"),
        ("/venv/bin/python /venv/bin/vllm bench serve --model a", None),
        ("vim /etc/vllm", None),
        ("grep -r vllm.entrypoints.openai.api_server /etc", None),
        ("vllm", None),
    ],
)
def test_what_a_server_is(argv, words):
    assert words_of_server(argv.split()) == (words if words is None else words.split())


@pytest.mark.parametrize(
    ("words", "model", "flags"),
    [
        ("a --port 8001", "a", {"port": 8001}),
        ("--port=8001 --model a", "a", {"port": 8001, "model": "a"}),
        ("--port 8001 a", "a", {"port": 8001}),
        ("a -tp 2 --max_model_len 4096", "a", {"tensor-parallel-size": 2, "max-model-len": 4096}),
        ("a --enforce-eager --no-enable-prefix-caching", "a", {"enforce-eager": True, "enable-prefix-caching": False}),
        ("a --served-model-name x y --seed -1", "a", {"served-model-name": ["x", "y"], "seed": -1}),
        ("a --kv-cache-memory-bytes 64M --kv-cache-memory-bytes 32M", "a", {"kv-cache-memory-bytes": "32M"}),
        (
            'a --speculative-config {"method":"dflash","num_speculative_tokens":7}', "a",
            {"speculative-config": {"method": "dflash", "num_speculative_tokens": 7}},
        ),
        (
            "a --speculative-config.method dflash --speculative-config.num_speculative_tokens 7 --speculative-config.a.b=c", "a",
            {"speculative-config": {"method": "dflash", "num_speculative_tokens": 7, "a": {"b": "c"}}},
        ),
        ("a --x.b 1 --x.b.c 2", "a", {"x": {"b": {"c": 2}}}),
        ("", "", {}),
    ],
)  # fmt: skip
def test_what_it_was_told(words, model, flags):
    assert parse(words.split()) == (model, flags)


@pytest.mark.parametrize("words", [["--x", "[" * 20000], ["--x", "[" * 2000 + "]" * 2000], ["--x" + ".a" * 20000, "1"]])
def test_what_is_nested_deeper_than_python_can_follow(words):
    _model, flags = parse(words)
    assert list(flags) == ["x"]
    json.dumps(flags)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@pytest.mark.parametrize("name", ["--x", "--spec-model", "--speculative-config"])
@pytest.mark.parametrize("dots", [0, 1, 20, DEEPEST - 4, DEEPEST - 1, DEEPEST, 200])
@pytest.mark.parametrize("inner", [1, 11, DEEPEST - 1, DEEPEST, DEEPEST + 1, 200])
@pytest.mark.parametrize("several", [False, True])
def test_dots_and_json_together_are_no_deeper_than_ansible_can_follow(name, dots, inner, several):
    value = "[" * inner + "7" + "]" * inner
    _model, flags = parse(["m", name + ".a" * dots, value, *([value] if several else [])])
    assert depth(flags) <= DEEPEST
    told = json.dumps(flags)
    assert value in told
    assert told.count("a") >= dots


def test_what_is_wide_is_read():
    wide = [{"a": "[{[{"}] * 100
    assert read(json.dumps(wide)) == wide
    assert read('"' + '\\"' * 60000 + "\\") == '"' + '\\"' * 60000 + "\\"  # in no time


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000])
def test_a_number_that_is_none_in_json_is_kept_as_text(number):
    assert parse(["m", "--x", number, "--y", f'{{"a": [{number}, 1.5, 2]}}'])[1] == {
        "x": number,
        "y": {"a": [number, 1.5, 2]},
    }
    json.dumps(parse(["m", "--x", number, "--y.a", number])[1], allow_nan=False)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("--api-key", "api-key"),
        ("--api_key=x", "api-key"),
        ("--api-k", "api-key"),
        ("--hf-t=x", "hf-token"),
        ("--max-num", "max-num"),  # two begin so, and vLLM refuses it
        ("--model", "model"),
        ("--specu.method", "speculative-config"),
        ("--spec-m", "spec-m"),
        ("--quantization", "quantization"),
        ("-tp", "tensor-parallel-size"),
        ("-dpr", "data-parallel-start-rank"),
        ("--what-nobody-knows", "what-nobody-knows"),
    ],
)
def test_a_name_may_be_told_by_its_beginning(flag, name):
    assert long_name(flag) == name


@pytest.mark.parametrize(
    ("words", "model", "flags"),
    [
        ("a --por 8001 --api-k 007", "a", {"port": 8001, "api-key": "007"}),
        ("--enforce-eager a", "a", {"enforce-eager": True}),
        ("--no-enable-prefix-caching a --seed 1", "a", {"enable-prefix-caching": False, "seed": 1}),
        ("--cudagraph-capture-sizes 1 2 --port 1", "", {"cudagraph-capture-sizes": ["1", "2"], "port": 1}),
        ("--disable-access-log-for-endpoints /health a", "a", {"disable-access-log-for-endpoints": "/health"}),
        (
            "a --spec-method dflash --spec-model /d --spec-tokens 7", "a",
            {"speculative-config": {"method": "dflash", "model": "/d", "num_speculative_tokens": 7}},
        ),
        (
            'a --spec-tokens 7 --speculative-config {"method":"dflash"}', "a",
            {"speculative-config": {"method": "dflash", "num_speculative_tokens": 7}},
        ),
    ],
)  # fmt: skip
def test_what_else_vllm_takes(words, model, flags):
    assert parse(words.split()) == (model, flags)

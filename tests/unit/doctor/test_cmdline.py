"""A vLLM command line is read as vLLM reads it."""

from __future__ import annotations

import json

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.cmdline import long_name, parse, words_of_server


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

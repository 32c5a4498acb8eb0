from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.llmops.vllm.plugins.filter.flags import flags


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"port": 8000}, ["--port=8000"]),
        ({"max_model_len": 512, "--dtype": "float32"}, ["--dtype=float32", "--max-model-len=512"]),
        ({"enforce-eager": True, "enable-prefix-caching": False}, ["--no-enable-prefix-caching", "--enforce-eager"]),
        ({"served-model-name": ["a", "b"]}, ["--served-model-name", "a", "b"]),
        ({"revision": None}, []),
        ({"chat-template": "-x y"}, ["--chat-template=-x y"]),
        ({"gpu-memory-utilization": 0.9}, ["--gpu-memory-utilization=0.9"]),
        ({"allowed-origins": []}, []),
        (
            {"lora-modules": [{"name": "a", "path": "/ü"}, "b=/c"]},
            ["--lora-modules", '{"name": "a", "path": "/ü"}', "b=/c"],
        ),
        ({"x": [True, None, 2, 0.5]}, ["--x", "true", "null", "2", "0.5"]),
    ],
)
def test_flags(options, arguments):
    assert flags(options) == arguments


def test_json_comes_back_as_it_went():
    value = {"model": '/srv/mödels/it\'s a "drafter"', "method": "dflash", "num_speculative_tokens": 7}
    (argument,) = flags({"speculative-config": value})
    assert json.loads(argument.removeprefix("--speculative-config=")) == value


def test_the_order_of_keys_makes_no_difference():
    assert flags({"a": 1, "b": 2}) == flags({"b": 2, "a": 1}) == ["--a=1", "--b=2"]


@pytest.mark.parametrize("name", ["api-key", "api_key", "--api-key", "hf-token"])
def test_a_secret_is_refused_and_not_told(name):
    with pytest.raises(AnsibleFilterError, match="is a secret") as e:
        flags({name: "canary"})
    assert "canary" not in str(e.value)


def test_no_dictionary_is_an_error():
    with pytest.raises(AnsibleFilterError, match="takes a dictionary"):
        flags(["--port", "8000"])

"""A secret is known by its name, however it is written, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import masking, servers
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_API_KEY", "a,bcd12345"),
        ("VLLM_API_KEY", "abc]def"),
        ("VLLM_API_KEY", "xyz&abcdefgh"),
        ("VLLM_API_KEY", "12345678"),
        ("HF_TOKEN", "correct horse battery"),
        ("HUGGING_FACE_HUB_TOKEN", "x"),
        ("VLLM_S3_SECRET_ACCESS_KEY", "x"),
        ("RAY_REDIS_PASSWORD", "a b"),
        ("api-key", ["a", "b"]),
        ("api-key", 12345678),
        ("accessToken", "x"),
        ("credentials", {"user": "x"}),
        ("api_keys", ["x"]),
    ],
)
def test_a_secret_is_masked_wholly(name, value):
    assert masking.shown(name, value) == MASK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_LOGGING_LEVEL", "DEBUG"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("VLLM_MAX_TOKENS", "4096"),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ("HF_TOKEN_PATH", "/etc/token"),
        ("max-num-batched-tokens", 8192),
        ("tokenizer-mode", "auto"),
        ("return-tokens-as-token-ids", True),
        ("ssl-keyfile", "/etc/key.pem"),
        ("hf-overrides", {"mask_token_id": 3, "bos_token": "<s>", "num_image_token": 256}),
        ("keeper", "nohup"),
        ("served-model-name", ["a", "b"]),
    ],
)
def test_what_is_no_secret_is_shown(name, value):
    assert masking.shown(name, value) == value


CANARY = "canary5f1d0c"


@pytest.mark.parametrize(
    "words",
    [
        ["--otlp-traces-endpoint", f"http://u:{CANARY}@h:1"],
        ["--kv-transfer-config", json.dumps({"extra": {"secret_key": f"a,{CANARY}", "n": 1}})],
        ["--kv-transfer-config=" + json.dumps({"extra": [{"password": f"a]{CANARY}"}]})],
        ["--kv-transfer-config.extra.secret_key", f"x&{CANARY}"],
        ["--api-key", f"a,{CANARY}", f"b]{CANARY}"],
        [f"--api-key=a,{CANARY}"],
        [f"--api-k=a,{CANARY}"],
        ["--api_k", f"a,{CANARY}"],
        ["--hf-to", f"a,{CANARY}"],
        ["--model-loader-extra-config", json.dumps({"env": f"HF_TOKEN=a,{CANARY}"})],
    ],
)
def test_neither_arguments_nor_flags_tell_one(words):
    argv = ["python", "/venv/bin/vllm", "serve", "m", *words]
    model, flags = servers.cmdline.parse(argv[3:])
    environment = {"VLLM_API_KEY": f"a,{CANARY}", "VLLM_://u:x=1@": f"http://u:{CANARY}@h", "EDITOR": CANARY}
    server = servers.Server(1, argv, model, flags, environment, "/", "me", 0.0, "", "", "", "", [], {}, [])
    assert CANARY in str(server)
    told = server.public()
    assert CANARY not in json.dumps(told)
    assert MASK in str(told["argv"]) and MASK in str(told["flags"])


@pytest.mark.parametrize("flag", ["--api-key", "--api_key", "--api-k", "--api-ke=", "--hf-t", "--hf_tok=", "--token"])
def test_a_shell_that_was_told_it_does_not_tell_it(flag):
    words = f"pid 7 (sh -c vllm serve m {flag}{'' if flag.endswith('=') else ' '}{CANARY} --port 1)"
    assert masking.text(words) == words.replace(CANARY, MASK)


def test_a_shell_that_set_it_does_not_tell_it():
    assert masking.text("pid 7 (sh -c VLLM_API_KEY=a,bcd12345 X=1 vllm serve)") == (
        f"pid 7 (sh -c VLLM_API_KEY={MASK} X=1 vllm serve)"
    )


def test_bytes_that_are_no_text_are_written_out():
    """Ansible refuses all of a module's result for them."""
    odd = os.fsdecode(b"\xff")
    argv = ["python", f"/{odd}/vllm", "serve", odd, f"--{odd}={odd}", "--x", '{"\\ud800": ["\\ud800"]}', f"-{odd}"]
    model, flags = servers.cmdline.parse(argv[3:])
    server = servers.Server(
        1, argv, model, flags, {f"VLLM_{odd}": odd}, f"/{odd}", "me", 0.0, "", "", "", "", [], {}, []
    )
    told = server.public()
    json.dumps(told, ensure_ascii=False).encode()
    assert (told["model"], told["cwd"], told["flags"]["x"]) == ("\\udcff", "/\\udcff", {"\\ud800": ["\\ud800"]})


@pytest.mark.parametrize("word", ["-", "eyJ-", "_", "a-", "://", "key="])
def test_a_long_argument_costs_no_more_than_its_length(word):
    """Any user may start a process with one of 128 KiB."""
    began = time.process_time()
    masking.text(word * (100_000 // len(word)))
    assert time.process_time() - began < 10

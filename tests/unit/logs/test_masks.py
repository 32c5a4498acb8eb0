from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK, mask


@pytest.mark.parametrize(
    "text",
    [
        "using token hf_abcdefghijklmnopqrstuvwxyz",
        "Authorization: Bearer s3cr3t-s3cr3t",
        "{'api_key': ['s3cr3t-s3cr3t'], 'port': 8000}",
        '{"api_key": "s3cr3t-s3cr3t"}',
        "--api-key s3cr3t-s3cr3t --port 8000",
        "--api-key=s3cr3t-s3cr3t",
        "VLLM_API_KEY=s3cr3t-s3cr3t",
        "HF_TOKEN: s3cr3t-s3cr3t",
        "'hf_token': 's3cr3t-s3cr3t'",
        "password=s3cr3t-s3cr3t",
        "https://user:s3cr3t-s3cr3t@192.0.2.1/simple",
        "sk-s3cr3ts3cr3ts3cr3t",
        "AWS_SECRET_ACCESS_KEY=s3cr3t-s3cr3t",
        "AWS_SESSION_TOKEN=s3cr3t-s3cr3t",
        "DB_PASSWORD: s3cr3t-s3cr3t",
        "client_secret=s3cr3t-s3cr3t",
        "'ssl_keyfile_password': 's3cr3t s3cr3t, s3cr3t'",
        "{'api_key': ['s3cr3t-one', 's3cr3t-two'], 'port': 8000}",
        "api_key=SecretStr('s3cr3t-s3cr3t')",
        "'token': b's3cr3t-s3cr3t'",
        r"{\"api_key\": \"s3cr3t-s3cr3t\"}",
        "--api-key s3cr3t-one s3cr3t-two --port 8000",
        "--db-password s3cr3t",
        "Authorization: Token s3cr3t-s3cr3t",
        "{'authorization': 's3cr3t-s3cr3t'}",
        "mysql://user:s3cr3t@s3cr3t@192.0.2.1/",
        "403 Client Error: Forbidden for url: https://example.com/x?Expires=1&Signature=s3cr3t-s3cr3t&Key-Pair-Id=K2",
    ],
)
def test_secrets_go(text):
    masked = mask(text)
    assert MASK in masked
    assert "s3cr3t" not in masked
    assert "hf_abcdef" not in masked


@pytest.mark.parametrize(
    "text",
    [
        "'num_speculative_tokens': 7, 'max_num_batched_tokens': 32768",
        "Accepted: 182 tokens, Drafted: 182 tokens",
        "tokenizer='/srv/models/target', tokenizer_mode=auto, tokenizer_revision=None",
        "mask_token_id=4 eos_token_id=2 pad_token='<pad>'",
        "hf_token=None, api_key: null",
        "GPU KV cache size: 164,472 tokens",
        "token_ids=[1, 2, 3]",
        "'unk_token': '[UNK]', image_token: 151655",
        "argument --api-key: expected at least one argument",
        "'api_key': '', 'password': \"\"",
        "https://example.com/?mail=someone@example.com",
        "http://192.0.2.1:8000/v1",
        "",
    ],
)
def test_everything_else_stays(text):
    assert mask(text) == text


def test_masking_again_changes_nothing():
    once = mask("--api-key s3cr3t-s3cr3t token=abcdefgh https://a:b@c/")
    assert mask(once) == once


def test_a_very_long_word_is_no_trouble():
    """Quadratic time would not end before the night does."""
    assert mask("x" * 2_000_000) == "x" * 2_000_000

"""What is told of addresses and other texts that hold secrets."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets


@pytest.mark.parametrize(
    ("text", "bare", "masked", "hidden"),
    [
        ("https://host/v.whl#sha256=ab", "https://host/v.whl#sha256=ab", "https://host/v.whl#sha256=ab", set()),
        ("see ssh://git@host/v.git", "see ssh://host/v.git", "see ssh://***@host/v.git", set()),
        ("https://token-1234@host/", "https://host/", "https://***@host/", {"token-1234"}),
        ("https://me:p@ss@host/v", "https://host/v", "https://***@host/v", {"me:p@ss", "p@ss"}),
        ("https://me:p%40ss@host", "https://host", "https://***@host", {"me:p%40ss", "me:p@ss", "p%40ss", "p@ss"}),
        (
            "'https://host/v.whl?expires=1&sig=abcdefgh%3D' is",
            "'https://host/v.whl' is",
            "'https://host/v.whl?***' is",
            {"expires=1&sig=abcdefgh%3D", "expires=1&sig=abcdefgh=", "abcdefgh%3D", "abcdefgh="},
        ),
        (
            '{"url": "https://me:secret@host/v.whl?a=b", "x": 1}',
            '{"url": "https://host/v.whl", "x": 1}',
            '{"url": "https://***@host/v.whl?***", "x": 1}',
            {"me:secret", "secret"},
        ),
        (
            "git+https://a:b@host/v one@two? /srv/v.whl?x",
            "git+https://host/v one@two? /srv/v.whl?x",
            None,
            {"a:b", "b"},
        ),
    ],
    ids=["none", "ssh", "a token", "@ in a password", "a password quoted", "a signature", "JSON", "no addresses"],
)
def test_addresses(text, bare, masked, hidden):
    assert secrets.bare(text) == bare
    assert masked is None or secrets.masked(text) == masked
    assert secrets.of_addresses(text) == hidden


def test_a_digest_is_the_same_everywhere_and_slow():
    """PBKDF2 with SHA-256, 100,000 rounds, as `openssl kdf -keylen 16 -kdfopt digest:SHA256 ... PBKDF2` has it."""
    assert secrets.digest('{"PIN": "1234"}') == "9a07d5ae50b0d219ad940e2cc76e974d"

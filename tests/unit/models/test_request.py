"""What the job of a fetch says, in which no secret may be."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._models.request import Request

REQUEST = Request(
    *("/models", "someone/some-model", "0" * 40, "https://hub.invalid"),
    token="hf_canary",
    source_token="me:canary-source",
    index_url="https://me:canary%2Findex@index.invalid/simple?sig=canary-query",
    environment={"HTTPS_PROXY": "http://us:canary-proxy@proxy.invalid:3128", "PIN": "1234"},
)


@pytest.mark.parametrize(
    "said",
    [
        "the token hf_canary is refused",
        "user me:canary-source",
        "GET https://me:canary%2Findex@index.invalid/simple/hf-xet/",
        "401 for the user me with canary/index",
        "the query was sig=canary-query",
        "the proxy refuses us with canary-proxy",
        "redirected to https://elsewhere.invalid/wheel?X-Amz-Signature=canary-of-another",
    ],
)
def test_no_secret_is_said_in_any_way(said):
    assert "canary" not in REQUEST.masked(said)


def test_the_rest_is_said():
    said = "1234 bytes of https://hub.invalid/someone/some-model from index.invalid by proxy.invalid:3128"
    assert REQUEST.masked(said) == said

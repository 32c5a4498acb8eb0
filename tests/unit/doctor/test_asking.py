"""What a server is asked, and where."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.tests.unit.doctor.test_judges import SERVER


def subject(**flags: object) -> Subject:
    return Subject(dataclasses.replace(SERVER, flags=flags), {}, None)


@pytest.mark.parametrize("host", ["evil.example", "gpu1", "127.0.0.1.nip.example"])
def test_no_name_is_looked_up_that_a_contained_server_names(host):
    assert subject(host=host, port=1).ask(known_names=False) == {}


def test_a_numeric_address_is_asked_wherever_it_is():
    """Nothing listens there, so there is a reason."""
    assert "silence" in subject(host="127.0.0.1", port=1).ask(known_names=False)


def test_a_headless_rank_is_not_asked():
    assert subject(headless=True).ask(known_names=True) == {}


def test_an_answer_is_heard():
    one = subject()
    one.hear({"status": 200, "text": "vllm:generation_tokens_total 5\n", "version": "0.32.0"})
    assert (one.answers, one.version, one.counters.generated) == (True, "0.32.0", 5)
    one.hear({"silence": "refused"})
    assert (one.answers, one.silence) == (False, "refused")

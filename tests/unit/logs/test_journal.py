"""Entries of a journal, as journalctl writes them. Reading one takes systemd: see the tests with a fleet."""

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.module_utils._logs.journal import message, signature


def test_messages():
    assert message({"MESSAGE": "größe"}) == "größe".encode()
    assert message({"MESSAGE": [99, 97, 102, 233]}) == b"caf\xe9"
    assert message({"MESSAGE": None}) == b""
    assert message({}) == b""


def test_what_systemd_says_of_a_unit_is_signed():
    assert signature({"MESSAGE": "x", "UNIT": "vllm.service", "_PID": "1"}) == b"(systemd pid=1) "
    assert signature({"MESSAGE": "x", "_PID": "44"}) == b""

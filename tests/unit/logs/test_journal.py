"""Entries of a journal, as journalctl writes them. Reading one takes systemd: see the tests with a fleet."""

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.module_utils._logs.journal import Journal, message, signature


def test_messages():
    assert message({"MESSAGE": "größe"}) == "größe".encode()
    assert message({"MESSAGE": [99, 97, 102, 233]}) == b"caf\xe9"
    assert message({"MESSAGE": None}) == b""
    assert message({}) == b""


def test_what_systemd_says_of_a_unit_is_signed():
    assert signature({"MESSAGE": "x", "UNIT": "vllm.service", "_PID": "1"}) == b"(systemd pid=1) "
    assert signature({"MESSAGE": "x", "_PID": "44"}) == b""


def test_what_is_no_entry_is_skipped():
    journal = Journal("vllm.service")
    wrong = [b"", b"Failed to get data", b'{"MESSAGE": "cut', b'{"MESSAGE": "no cursor"}', b"[]", b"null", b"\xff"]
    wrong.append(b'{"__CURSOR": "c9", "MESSAGE": [300]}')
    entries = [b'{"__CURSOR": "c1", "MESSAGE": "one"}', *wrong, b'{"__CURSOR": "c2", "MESSAGE": "two"}', b'{"__CUR']
    assert journal._lines(b"\n".join(entries)) == b"one\ntwo\n"
    assert journal.mark() == {"unit": "vllm.service", "cursor": "c2"}
    assert journal._lines(b'SOR": "c3", "MESSAGE": "three"}\n') == b"three\n"

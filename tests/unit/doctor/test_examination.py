"""A log may be anybody's, and is read by root: it has an end, and its judgement too."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import examination


def test_a_log_that_grows_while_it_is_read_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "CHUNK", 1000)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5000)
    read = 0
    with path.open("ab") as f:
        for piece in examination._written(str(path)):
            read += len(piece)
            f.write(b"x" * 2000)
            f.flush()
    assert read == 5000


def test_a_log_whose_judgement_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(examination, "PATIENCE", 0.0)
    with pytest.raises(RuntimeError, match="that takes more than 0 s"):
        examination._judged([b"INFO a line\n"])

"""Files that are written and read where somebody else may write too."""

from __future__ import annotations

import os
import tempfile

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import files


def test_who_puts_a_link_in_the_way_wins_nothing(tmp_path, monkeypatch):
    """The race that the owner of the directory can win, won at once: the new file has become a link to another's."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    make = tempfile.mkstemp

    def raced(**options: str) -> tuple[int, str]:
        descriptor, name = make(**options)
        os.unlink(name)
        os.symlink(victim, name)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", raced)
    (tmp_path / "theirs").mkdir()
    files.write(str(tmp_path / "theirs/request.json"), b"evil", mode=0o644, owner=(os.getuid(), os.getgid()))
    assert victim.read_text() == "precious"
    assert victim.stat().st_mode & 0o777 == 0o600


def test_what_is_there_keeps_its_mode_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("old")
    path.chmod(0o640)
    files.write(str(path), b"new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(str(path), b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["config.json"]


def test_only_files_are_opened(tmp_path):
    """A pipe would never begin."""
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "file", opener=files.ordinary) as f:
        assert f.read() == "x"
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(OSError, match="no ordinary file"):
            files.ordinary(path, os.O_RDONLY)

"""Files are read that lie where anybody may have put something else."""

from __future__ import annotations

import os

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import files


def test_only_files_are_opened(tmp_path):
    """A pipe would never begin."""
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "file", opener=files.ordinary) as f:
        assert f.read() == "x"
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(OSError, match="no ordinary file"):
            files.ordinary(path, os.O_RDONLY)

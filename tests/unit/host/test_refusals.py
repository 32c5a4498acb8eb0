from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import refusals


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "/x: No space left on device. Free some space on its disk, or inodes."),
        (errno.EACCES, "/x: Permission denied. It belongs to another user: connect as that user, or as root (become)."),
        (errno.ENOENT, "/x: No such file or directory."),
    ],
)
def test_where_why_and_what_to_do(number, said):
    assert refusals.told(OSError(number, os.strerror(number), "/x"), "/y") == said


def test_what_names_no_place_is_told_of_the_one_that_was_asked_for():
    assert (
        refusals.told(OSError(errno.EIO, "Input/output error"), "/y")
        == "/y: Input/output error. Its disk fails: see dmesg."
    )
    assert refusals.told(OSError("told"), "/y") == "/y: told."


@pytest.fixture(params=["size=64k", "nr_inodes=1"])
def small(tmp_path, request):
    """A disk with no room for another file of any size."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", tmp_path], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_disk_without_room_is_named(small):
    full = refusals.no_room(str(small / "not/there/yet"))
    assert full.startswith(f"The disk of {small} is full: it has ")
    assert full.endswith("Free some space on it.")


def test_a_disk_with_room_is_not():
    assert refusals.no_room(str(Path(__file__))) == ""
    assert refusals.no_room("/proc") == ""

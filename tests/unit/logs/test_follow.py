"""A log is read once, whatever is done to its file."""

from __future__ import annotations

import os

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower, NotALogError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


def read(follower: Follower) -> bytes:
    data = b""
    while True:
        more = follower.read()
        if not more:
            return data
        data += more


def append(path, data: bytes) -> None:
    with open(path, "ab") as f:
        f.write(data)


def test_it_grows(path):
    follower = Follower(str(path))
    assert read(follower) == b""
    assert not follower.found
    append(path, b"one\n")
    assert read(follower) == b"one\n"
    append(path, b"two")
    append(path, b" three\n")
    assert read(follower) == b"two three\n"
    assert read(follower) == b""
    assert (follower.generation, follower.notes) == (0, [])


def test_its_folder_appears_late(tmp_path):
    follower = Follower(str(tmp_path / "a/b/server.log"))
    assert read(follower) == b""
    (tmp_path / "a/b").mkdir(parents=True)
    append(tmp_path / "a/b/server.log", b"one\n")
    assert read(follower) == b"one\n"


def test_from_a_mark(path):
    append(path, b"one\n")
    first = Follower(str(path))
    read(first)
    assert first.mark() == {
        "path": str(path),
        "device": os.stat(path).st_dev,
        "inode": os.stat(path).st_ino,
        "offset": 4,
    }
    append(path, b"two\n")
    assert read(Follower(str(path), first.mark())) == b"two\n"
    assert read(Follower(str(path), first.mark(unread=2))) == b"e\ntwo\n"
    assert Follower(str(path), first.mark()).read() == b"two\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link another's")
def test_a_link_of_another_user_is_not_followed(path):
    append(path.with_name("secret"), b"canary\n")
    path.symlink_to("secret")
    assert read(Follower(str(path))) == b"canary\n"
    os.chown(path, 65534, 65534, follow_symlinks=False)
    with pytest.raises(NotALogError, match="a link of another user's"):
        Follower(str(path)).read()


def test_since_the_end(path):
    append(path, b"old\n")
    follower = Follower(str(path), since="end")
    assert read(follower) == b""
    append(path, b"new\n")
    assert read(follower) == b"new\n"


def test_since_the_end_of_a_file_that_is_not_there_is_all_of_it(path):
    follower = Follower(str(path), since="end")
    assert read(follower) == b""
    append(path, b"new\n")
    assert read(follower) == b"new\n"


def test_rotated(path):
    append(path, b"one\n")
    follower = Follower(str(path))
    assert read(follower) == b"one\n"
    append(path, b"last words\n")
    path.rename(path.with_suffix(".1"))
    assert read(follower) == b"last words\n"
    append(path.with_suffix(".1"), b"very last\n")
    append(path, b"new\n")
    assert read(follower) == b"very last\nnew\n"
    assert follower.generation == 1
    assert "rotated" in follower.notes[0]


def test_rotated_since_the_mark(path):
    append(path, b"one\n")
    first = Follower(str(path))
    read(first)
    append(path, b"two\n")
    path.rename(path.with_suffix(".1"))
    append(path, b"three\n")
    assert read(Follower(str(path), first.mark())) == b"two\nthree\n"


def test_replaced_since_the_mark_and_nowhere_to_be_found(path):
    append(path, b"one\n")
    first = Follower(str(path))
    read(first)
    new = path.with_suffix(".new")
    append(new, b"other\n")
    new.rename(path)
    second = Follower(str(path), first.mark())
    assert read(second) == b"other\n"
    assert second.generation == 1
    assert "not the file that the mark was made in" in second.notes[0]


def test_rotated_into_what_may_not_be_read(path, monkeypatch):
    """Root may read everything, so the refusal is made here."""
    append(path, b"one\n")
    first = Follower(str(path))
    read(first)
    path.rename(path.with_suffix(".1"))
    append(path, b"two\n")
    second = Follower(str(path), first.mark())

    def refuse(_folder):
        raise PermissionError

    monkeypatch.setattr(os, "scandir", refuse)
    assert read(second) == b"two\n"
    assert "not the file that the mark was made in" in second.notes[0]


def test_emptied(path):
    append(path, b"one\ntwo\n")
    follower = Follower(str(path))
    read(follower)
    os.truncate(path, 0)
    assert read(follower) == b""
    append(path, b"new\n")
    assert read(follower) == b"new\n"
    assert follower.generation == 1
    assert "emptied" in follower.notes[0]


def test_emptied_and_grown_past_where_we_were(path):
    append(path, b"one\n")
    follower = Follower(str(path))
    read(follower)
    os.truncate(path, 0)
    append(path, b"another and longer\n")
    assert read(follower) == b"another and longer\n"


def test_emptied_since_the_mark(path):
    append(path, b"one\ntwo\n")
    first = Follower(str(path))
    read(first)
    os.truncate(path, 0)
    append(path, b"new\n")
    assert read(Follower(str(path), first.mark())) == b"new\n"


def test_emptied_and_grown_between_two_slices(path):
    append(path, b"one\n")
    first = Follower(str(path))
    read(first)
    os.truncate(path, 0)
    append(path, b"another and longer\n")
    assert read(Follower(str(path), first.mark(), tail=first.tail)) == b"another and longer\n"


def test_removed_and_made_anew(path):
    append(path, b"one\n")
    follower = Follower(str(path))
    read(follower)
    path.unlink()
    assert read(follower) == b""
    append(path, b"two\n")
    assert read(follower) == b"two\n"


def test_a_link_that_turns(path, tmp_path):
    for name in ("a", "b"):
        append(tmp_path / name, name.encode() + b"\n")
    path.symlink_to("a")
    follower = Follower(str(path))
    assert read(follower) == b"a\n"
    (tmp_path / "new").symlink_to("b")
    (tmp_path / "new").rename(path)
    assert read(follower) == b"b\n"


def test_what_is_no_log(path, tmp_path):
    with pytest.raises(NotALogError, match="not a regular file"):
        Follower(str(tmp_path)).read()
    os.mkfifo(path)
    with pytest.raises(NotALogError, match="not a regular file"):
        Follower(str(path)).read()


def test_what_can_be_opened_and_not_read():
    """The kernel refuses the first page of a process's memory with EIO, as it does a block of a broken disk."""
    with pytest.raises(NotALogError, match=r"^Can't read /proc/self/mem: Input/output error\.$"):
        Follower("/proc/self/mem").read()


def test_lines_before(path):
    append(path, b"one\ntwo\nthree\n")
    follower = Follower(str(path))
    read(follower)
    assert [follower.lines_before(n) for n in (0, 3, 4, 8, 14)] == [0, 0, 1, 2, 3]

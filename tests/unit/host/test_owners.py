"""Whom root becomes before it runs what others can change, and that it writes where it means to."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import loading
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, keeper, locks, owners, processes

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
NOBODY = pwd.getpwnam("nobody")
WHO = '#!/bin/sh\necho "$(id -u) $(id -g) ${HOME-none} ${SECRET-none}" >> ../ids\necho \'answer:{"values": {}}\'\n'


@pytest.fixture
def place(monkeypatch):
    """A directory of root's in which nobody can look, with a program in it that writes down who it runs as."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to others
        os.chmod(name, 0o755)
        ids = Path(name, "ids")
        ids.touch()
        ids.chmod(0o666)
        program = Path(name, "venv/bin/python")
        program.parent.mkdir(parents=True)
        program.write_text(WHO.replace("../ids", str(ids)))
        program.chmod(0o755)
        monkeypatch.setenv("SECRET", "canary")
        yield program


@as_root
@pytest.mark.parametrize("part", ["venv/bin/python", "venv/bin", "venv", ""])
def test_a_part_of_the_way_is_enough(place, part):
    assert owners.whose(str(place)) == 0
    shutil.chown(place.parents[2] / part, "nobody")
    assert owners.whose(str(place)) == NOBODY.pw_uid


@as_root
def test_a_link_of_theirs_to_what_is_roots(place):
    theirs = place.parents[2] / "theirs"
    theirs.mkdir()
    (theirs / "venv").symlink_to(place.parents[1])
    shutil.chown(theirs, "nobody")
    assert owners.whose(str(theirs / "venv/bin/python")) == NOBODY.pw_uid
    assert owners.whose(str(place)) == 0


@as_root
def test_a_link_of_roots_to_what_is_theirs(place):
    link = place.parents[2] / "link"
    link.symlink_to(place.parents[1])
    shutil.chown(place.parents[1], "nobody")
    assert owners.whose(str(link / "bin/python")) == NOBODY.pw_uid


@as_root
def test_a_python_is_asked_as_its_owner(place):
    loading.ask(str(place), {})
    shutil.chown(place, "nobody")
    loading.ask(str(place), {})
    ids = (place.parents[2] / "ids").read_text().splitlines()
    assert [line.split()[0] for line in ids] == ["0", str(NOBODY.pw_uid)]
    assert ids[1] == f"{NOBODY.pw_uid} {NOBODY.pw_gid} none none"


@as_root
def test_a_user_whom_the_host_does_not_know(place):
    os.chown(place, 54321, 54321)
    with pytest.raises(Exception, match=r"python: .* is in the hands of a user whom the host does not know: .*54321"):
        loading.ask(str(place), {})


def test_a_record_is_not_written_through_a_link(tmp_path):
    """Laid where the record is written first, whatever was foreseen of its name."""
    theirs = tmp_path / "theirs"
    theirs.write_text("as it was")
    (tmp_path / f"install.pid.{os.getpid()}").symlink_to(theirs)
    (tmp_path / "install.pid").symlink_to(theirs)
    keeper.write(str(tmp_path / "install.pid"), {"pid": 1})
    assert theirs.read_text() == "as it was"
    assert json.loads((tmp_path / "install.pid").read_text()) == {"pid": 1}
    assert (tmp_path / "install.pid").stat().st_mode & 0o777 == 0o644
    assert not list(tmp_path.glob(".*"))


def test_a_lock_makes_no_file_through_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"), locks.locked(str(tmp_path / "lock")):
        pass
    assert not (tmp_path / "elsewhere").exists()


@as_root
def test_a_directory_is_given_unless_it_is_a_link_or_anothers(tmp_path):
    ids = (NOBODY.pw_uid, NOBODY.pw_gid)
    for _again in range(2):
        files.give(str(tmp_path / "a/b"), ids)
    assert [(tmp_path / name).stat().st_uid for name in ("a", "a/b")] == [0, ids[0]]
    (tmp_path / "a/link").symlink_to(tmp_path)
    (tmp_path / "a/lost").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a/file").touch()
    for name in ("link", "lost", "file"):
        with pytest.raises(PermissionError, match="a link or a file where a directory should be"):
            files.give(str(tmp_path / "a" / name), ids)
    os.chown(tmp_path / "a", 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        files.give(str(tmp_path / "a"), ids)
    assert (tmp_path.stat().st_uid, (tmp_path / "a").stat().st_uid) == (0, 1)


def recorded(path):
    """A record of this very process, as a keeper would write it."""
    log = path.parent / "1.log"
    log.write_text("first\nlast\n")
    mark = {"device": log.stat().st_dev, "inode": log.stat().st_ino}
    me = {"pid": os.getpid(), "start_ticks": processes.start_ticks(os.getpid()), "boot_id": processes.boot_id()}
    path.write_text(json.dumps({**me, "argv": [], "started_at": "", "log": str(log), "mark": mark}))
    path.with_name(f"{path.name}.exit").write_text(json.dumps({**me, "code": 3}))
    return str(path)


def test_a_keeper_of_ours_is_believed(tmp_path):
    pidfile = recorded(tmp_path / "server.pid")
    record = processes.read_pidfile(pidfile)
    assert record and processes.alive(record)
    assert str(processes.read_exit(pidfile, record)) == "exit code 3"
    assert processes.read_log(record) == ["first", "last"]


def test_a_link_and_a_pipe_are_no_pid_files(tmp_path):
    pidfile = recorded(tmp_path / "server.pid")
    (tmp_path / "link.pid").symlink_to(pidfile)
    os.mkfifo(tmp_path / "pipe.pid")
    assert processes.read_pidfile(str(tmp_path / "link.pid")) is None
    assert processes.read_pidfile(str(tmp_path / "pipe.pid")) is None


@as_root
def test_what_another_wrote_is_not_believed(tmp_path):
    """Or the server's user could have root stop any process, or take any end for its own."""
    pidfile = recorded(tmp_path / "server.pid")
    record = processes.read_pidfile(pidfile)
    for name in (pidfile, f"{pidfile}.exit"):
        os.chown(name, NOBODY.pw_uid, NOBODY.pw_gid)
    assert record and processes.read_pidfile(pidfile) is None
    assert processes.read_exit(pidfile, record) is None


def test_another_file_in_the_place_of_a_log_is_not_read(tmp_path):
    record = processes.read_pidfile(recorded(tmp_path / "server.pid"))
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "1.log").rename(tmp_path / "2.log")
    (tmp_path / "1.log").symlink_to(tmp_path / "secret")
    assert record and processes.read_log(record) == []

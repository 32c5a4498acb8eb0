"""A file is read as a process sees it that lives under another root, and nothing of ours is changed by that."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import git
from ansible_collections.llmops.vllm.plugins.module_utils._doctor import namespaces
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.namespaces import (
    at_files,
    at_network,
    other_files,
    other_network,
)

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may look from another root")
# chroot(2) by a Python that stays: after that it opens nothing any more.
STAY = "import os, sys, time; os.chroot(sys.argv[1]); os.chdir('/'); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def process(tmp_path):
    """A process whose root is a directory."""
    (tmp_path / "models/draft").mkdir(parents=True)
    (tmp_path / "models/draft/config.json").write_text('{"inside": true}')
    (tmp_path / "served").symlink_to("/models/draft")
    with subprocess.Popen([sys.executable, "-c", STAY, str(tmp_path)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout.readline() == "up\n"
        yield started.pid
        started.kill()


@ROOT
def test_paths_are_those_of_the_process(process):
    """A link to an absolute path leads to where it leads the process."""
    assert other_files(process)

    def look() -> list[str]:
        with open("/served/config.json") as f:
            return [f.read(), *sorted(os.listdir("/"))]

    assert at_files(process, look) == ['{"inside": true}', "models", "served"]
    assert not os.path.exists("/served/config.json")


@ROOT
def test_what_is_imported_late_is_there(process):
    """Python has no files of its own under that root."""

    def look() -> str:
        with open("/served/config.json", encoding="ascii") as f, socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return f.read()

    assert at_files(process, look)


@ROOT
def test_what_goes_wrong_there_is_told(process):
    def look() -> None:
        raise KeyError("config")

    with pytest.raises(RuntimeError, match="KeyError: 'config'"):
        at_files(process, look)


def test_a_look_that_does_not_end_is_ended(tmp_path, monkeypatch):
    """As at a pipe that somebody has put where a file should be."""
    monkeypatch.setattr(namespaces, "PATIENCE", 0.3)
    os.mkfifo(tmp_path / "token")

    def look() -> str:
        with open(tmp_path / "token") as f:
            return f.read()

    with pytest.raises(RuntimeError, match=r"it did not end within 0\.3 s"):
        at_files(os.getpid(), look)


@ROOT
def test_no_library_of_the_process_is_loaded(tmp_path):
    """What is asked over the network is asked with our own root: a name looked up under another's would load its libraries."""
    root = tmp_path / "root"
    root.mkdir()
    with subprocess.Popen([sys.executable, "-c", STAY, str(root)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout.readline() == "up\n"
        try:
            assert at_network(started.pid, lambda: os.path.exists(sys.executable))
            assert not at_files(started.pid, lambda: os.path.exists(sys.executable))
        finally:
            started.kill()


@ROOT
@pytest.mark.parametrize(
    "run",
    [
        lambda: subprocess.run(["git", "--version"], check=False),
        lambda: os.system("git"),
        lambda: os.posix_spawn("/usr/bin/git", ["git"], {}),
        lambda: os.execv("/usr/bin/git", ["git"]),
        lambda: pwd.getpwuid(0).pw_name,
        lambda: __import__("this"),
    ],
    ids=["subprocess", "system", "posix_spawn", "exec", "a user's name", "import"],
)
def test_nothing_is_run_that_lies_there(process, tmp_path, run):
    """What lies under another's root is another's, and whoever looks is root."""
    trap = tmp_path / "usr/bin/git"
    trap.parent.mkdir(parents=True)
    shutil.copy("/bin/true", trap)
    trap.chmod(0o755)
    with pytest.raises(RuntimeError, match="under another's root"):
        at_files(process, run)


@ROOT
def test_a_repository_there_is_not_asked(process):
    assert at_files(process, lambda: git.ask("/", "status")) == [127, ""]


def test_a_look_has_no_more_memory_than_it_needs(monkeypatch):
    monkeypatch.setattr(namespaces, "MEMORY", 1 << 30)
    with pytest.raises(RuntimeError, match="MemoryError"):
        at_files(os.getpid(), lambda: len(bytearray(2 << 30)))


def test_a_look_that_tells_too_much_is_ended(monkeypatch):
    monkeypatch.setattr(namespaces, "LONGEST", 1 << 20)
    with pytest.raises(RuntimeError, match="more than 1 MiB to tell"):
        at_files(os.getpid(), lambda: "x" * (2 << 20))


@ROOT
def test_an_address_is_that_of_the_process(tmp_path):
    """A server in a network of its own, which has nothing but its loopback."""
    unshare = shutil.which("unshare")
    code = (
        "import fcntl, socket, struct, time\n"
        "s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 0x1))\n"  # SIOCSIFFLAGS, IFF_UP
        "s = socket.create_server(('127.0.0.1', 18765)); print('up', flush=True)\n"
        "while True: s.accept()[0].sendall(b'hello')\n"
    )
    with subprocess.Popen([unshare, "--net", sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "up\n"

            def look() -> str:
                with socket.create_connection(("127.0.0.1", 18765), timeout=10) as s:
                    return s.recv(5).decode()

            assert other_network(server.pid)
            assert at_network(server.pid, look) == "hello"
            with pytest.raises(ConnectionRefusedError):
                look()
        finally:
            server.kill()


def test_who_is_where_we_are_is_looked_at_directly():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not other_files(process.pid)
        assert not other_network(process.pid)
        assert at_files(process.pid, lambda: {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(("inside", "held"), [("docker container 0f0f", True), ("", False)])
def test_who_may_not_ask_is_told_by_the_control_group(monkeypatch, inside, held):
    """Another's process can't be asked by an ordinary user, and a test for root has none that may not be asked."""

    def refused(pid: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(namespaces, "_root", refused)
    monkeypatch.setattr(namespaces, "_same", lambda pid, kind: refused(pid))
    monkeypatch.setattr(namespaces.origin, "container", lambda group: inside)
    assert other_files(1) is held
    assert other_network(1) is held

"""vllm_process with real processes: what it starts, what it never mistakes for its own, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import ports, processes, stopping

MODULE = Path(__file__).parents[3] / "plugins/modules/vllm_process.py"
# Says that it is up, then waits for a signal; `deaf` as argument makes it ignore TERM, `parent` gives it a child that outlives it.
SERVER = """
import signal, subprocess, sys, time
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in sys.argv: print("child", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def process(tmp_path):
    """Calls the module the way Ansible does, and ends whatever is left at the end."""

    def call(check=False, **params):
        args = {"pidfile": str(tmp_path / "run/server.pid"), "log": str(tmp_path / "log/server-{n}.log"), **params}
        args |= {
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            "_ansible_tmpdir": str(tmp_path),
            "_ansible_remote_tmp": str(tmp_path),
        }
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PROFILED.format(module=str(MODULE))],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}), capture_output=True, text=True, env=env, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    yield call
    call(state="stopped", stop_timeout=1)


# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = """
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path("{module}", run_name="__main__")
"""


def server(*words):
    return [sys.executable, "-u", "-c", SERVER, *words]


def wait_for(path, text):
    """Look until a file says so, for 20 s at most."""
    deadline = time.monotonic() + 20
    while text not in (Path(path).read_text() if Path(path).exists() else ""):
        assert time.monotonic() < deadline, f"{path} never said {text!r}"
        time.sleep(0.02)


def test_starts_once_and_stops(process):
    first = process(argv=server())
    assert first["changed"], first
    assert processes.command_line(first["pid"])[-1] == SERVER
    again = process(argv=server())
    assert (again["changed"], again["pid"], again["mark"]) == (False, first["pid"], first["mark"])
    stopped = process(state="stopped")
    assert stopped["changed"]
    assert stopped["pid"] is None
    assert (stopped["exit"]["code"], stopped["exit"]["signal"]) == (None, signal.SIGTERM)
    assert processes.start_ticks(first["pid"]) is None
    assert not process(state="stopped")["changed"]


def test_leads_a_session_of_its_own(process):
    started = process(argv=server())
    assert os.getsid(started["pid"]) == started["pid"] == os.getpgid(started["pid"])


def test_another_command_replaces_it_with_a_fresh_log(process):
    first = process(argv=server())
    second = process(argv=server("other"))
    assert second["changed"]
    assert second["pid"] != first["pid"]
    assert [Path(r["log"]).name for r in (first, second)] == ["server-1.log", "server-2.log"]
    assert Path(first["log"]).exists()
    assert "other" not in second["diff"][0]["before"]
    assert "other" in second["diff"][0]["after"]
    identity = os.stat(second["log"])
    assert (second["mark"]["device"], second["mark"]["inode"], second["mark"]["offset"]) == (
        identity.st_dev,
        identity.st_ino,
        0,
    )


def test_check_mode_touches_nothing(process, tmp_path):
    assert process(check=True, argv=server())["changed"]
    assert not (tmp_path / "run").exists()
    running = process(argv=server())
    assert process(check=True, state="stopped")["changed"]
    assert processes.start_ticks(running["pid"]) is not None


def test_a_deaf_process_is_killed(process):
    started = process(argv=server("deaf"))
    wait_for(started["log"], "up")
    stopped = process(state="stopped", stop_timeout=1)
    assert stopped["exit"]["signal"] == signal.SIGKILL
    # What the kernel calls it: the program that was started, cut to 15 characters.
    name = Path(sys.executable).name[:15]
    assert stopped["actions"] == [
        f"sent {what} {started['pid']} ({name})" for what in ("TERM to", "TERM again to", "KILL to")
    ]


def test_workers_of_a_killed_server_are_ended(process, tmp_path):
    """A killed vLLM leaves its engine behind, holding the GPUs."""
    started = process(argv=server("parent"))
    wait_for(started["log"], "up")
    child = int(Path(started["log"]).read_text().split()[1])
    os.kill(started["pid"], signal.SIGKILL)
    wait_for(tmp_path / "run/server.pid.exit", '"signal": 9')
    again = process(argv=server())
    assert processes.start_ticks(child) is None
    assert f"A server that is gone had left pid {child} (" in str(again["warnings"])
    assert str(child) in again["actions"][0]
    assert again["pid"]


def test_a_reused_pid_is_not_ours(process, tmp_path):
    """The record says another start time, as after a pid came round again: the stranger under that pid is left alone."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        process(argv=server())
        process(state="stopped")
        pidfile = tmp_path / "run/server.pid"
        record = json.loads(pidfile.read_text())
        record["pid"] = stranger.pid
        pidfile.write_text(json.dumps(record))
        assert not process(state="stopped")["changed"]
        assert process(argv=server())["pid"] != stranger.pid
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("content", ["", "123\n", '{"pid": 1}', '{"pid": 1, "start', "[]"])
def test_a_foreign_or_torn_pid_file_is_no_process(process, tmp_path, content):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/server.pid").write_text(content)
    assert not process(state="stopped")["changed"]
    assert process(argv=server())["changed"]


def test_an_occupied_port_is_named_before_anything_is_stopped(process):
    running = process(argv=server())
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        refused = process(argv=server("other"), port=port)
    assert refused["failed"]
    assert f"Port {port} on 127.0.0.1 is occupied by pid {os.getpid()}" in refused["msg"]
    assert processes.start_ticks(running["pid"]) is not None


def test_an_address_of_another_host_is_refused(process):
    refused = process(argv=server(), host="192.0.2.7", port=8000)
    assert "192.0.2.7:8000 can't be listened on" in refused["msg"]


@pytest.fixture
def closed(tmp_path):
    """A program in a directory that is closed to others."""
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o700)
    program = directory / "python"
    program.symlink_to(sys.executable)
    return program


@pytest.mark.parametrize("state", ["started", "rehearsed"])
@pytest.mark.parametrize(
    ("wanted", "cause"),
    [
        ({"argv": ["/nowhere/python", "launch.py"]}, "There is no program /nowhere/python on this host."),
        ({"argv": [sys.executable, "/nowhere/r1/launch.py"]}, "There is no /nowhere/r1/launch.py."),
        ({"argv": server("other"), "chdir": "/nowhere"}, "There is no directory /nowhere to start in."),
        ({"argv": server("other"), "user": "nobody-by-this-name"}, "There is no user nobody-by-this-name on this host"),
        ({"argv": ["{closed}", "-c", ""], "user": "nobody"}, "nobody may not run {closed}: "),
        ({"argv": server("other"), "log": "{there}"}, "The log {there} is there already"),
    ],
    ids=["program", "script", "directory", "user", "closed directory", "log"],
)
def test_what_could_not_run_stops_nothing(process, tmp_path, closed, state, wanted, cause):
    if "nobody" in str(wanted) and os.geteuid() != 0:
        pytest.skip("only root can start something as another user")
    there = tmp_path / "there.log"
    there.touch()
    names = {"{closed}": str(closed), "{there}": str(there)}
    wanted = json.loads(functools.reduce(lambda text, name: text.replace(name, names[name]), names, json.dumps(wanted)))
    running = process(argv=server())
    refused = process(**wanted, state=state)
    assert functools.reduce(lambda text, name: text.replace(name, names[name]), names, cause) in refused["msg"]
    assert "Nothing was stopped or started." in refused["msg"]
    assert processes.start_ticks(running["pid"]) is not None


@pytest.mark.parametrize("state", ["started", "stopped"])
@pytest.mark.parametrize("what", ["run", "log"])
def test_a_file_in_the_place_of_a_directory_is_said_to_be_so(process, tmp_path, what, state):
    (tmp_path / what).touch()
    refused = process(argv=server(), state=state)
    if what == "log" and state == "stopped":
        assert not refused["changed"]
    else:
        assert "lies where a directory should be: move it away." in refused["msg"]
        assert str(tmp_path / what) in refused["msg"]
    (tmp_path / what).unlink()


def test_a_rehearsal_does_nothing(process, tmp_path):
    assert not process(argv=server(), state="rehearsed")["changed"]
    assert not (tmp_path / "run").exists()
    running = process(argv=server())
    rehearsed = process(argv=server("other"), state="rehearsed")
    assert (rehearsed["changed"], rehearsed["pid"]) == (False, running["pid"])


def test_what_an_earlier_task_would_bring_is_only_a_warning_in_check_mode(process):
    would = process(argv=["/nowhere/python", "launch.py"], check=True)
    assert would["changed"]
    assert "There is no program /nowhere/python" in json.dumps(would["warnings"])


def test_another_users_process_is_said_to_be_so(process, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    running = process(argv=server())
    with pytest.raises(PermissionError, match=f"(?s)pid {running['pid']} .* can't be ended"), as_nobody():
        stopping.send(signal.SIGTERM, [running["pid"]], "sent TERM to")


@contextlib.contextmanager
def as_nobody():
    nobody = pwd.getpwnam("nobody").pw_uid
    os.setresuid(nobody, nobody, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_an_exit_code_is_remembered(process, tmp_path):
    process(argv=[sys.executable, "-c", "raise SystemExit(3)"])
    wait_for(tmp_path / "run/server.pid.exit", '"code": 3')
    assert process(state="stopped")["exit"]["code"] == 3


def test_listeners_are_found_on_ipv4_and_ipv6():
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as s:
            s.bind((address, 0))
            s.listen()
            port = s.getsockname()[1]
            assert ports.listeners(port) == [os.getpid()]
            assert not ports.is_free(address, port)
        assert ports.is_free(address, port)

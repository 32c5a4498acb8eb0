"""vllm_process under a real systemd, with a small server in vLLM's place, since the question is what becomes of it and not what it serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

CLONE = Path(__file__).parents[2]
INSTANCE = "/srv/instances/one"
UNIT = "vllm-one.service"
# Becomes a server as launch.py does. The words after it are what makes it misbehave.
LAUNCH = """
import os, sys
env = {**os.environ, "LLMOPS_VLLM_LAUNCH": os.path.realpath(__file__)}
os.execve(sys.executable, [sys.executable, "-u", "/srv/server.py", *WORDS], env)
"""
SERVER = """
import os, signal, socket, subprocess, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "stray" in sys.argv: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if "ends" in sys.argv: sys.exit(0)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000))
s.listen()
time.sleep(600)
"""
FILE = f"""
[Unit]
StartLimitIntervalSec=0
[Service]
Type=exec
ExecStart=/usr/bin/env python3 {INSTANCE}/current/launch.py
Restart=always
RestartSec=100ms
[Install]
WantedBy=multi-user.target
"""


class Host:
    def __init__(self, fleet) -> None:
        self.fleet = fleet
        (self.host,) = fleet.hosts
        self.run = self.host.run
        self.host.write("/srv/server.py", SERVER)
        self.host.write(f"/etc/systemd/system/{UNIT}", FILE)

    def release(self, name: str, *words: str) -> list[str]:
        """Makes a release the current one; gives back its command."""
        self.host.write(f"{INSTANCE}/releases/{name}/launch.py", LAUNCH.replace("WORDS", str(list(words))))
        self.run(f"ln -sfn releases/{name} {INSTANCE}/current")
        return ["/usr/bin/python3", f"{INSTANCE}/releases/{name}/launch.py"]

    def process(self, *options: str, **arguments: object) -> dict:
        arguments = {"unit": UNIT, "instance": INSTANCE, "port": 8000, "stop_timeout": 2, **arguments}
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("ansible"), "all", "-i", self.fleet.inventory, *options),
                *("-m", "llmops.vllm.vllm_process", "-a", json.dumps(arguments)),
            ],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return {
            **json.loads(done.stdout[done.stdout.index("=> ") + 3 :]),
            "said": " ".join((done.stderr + done.stdout).split()),
        }

    def shown(self, name: str) -> str:
        return self.run(f"systemctl show --property {name} --value {UNIT}").stdout.strip()

    def lives(self, pid: int) -> bool:
        return self.run(f"kill -0 {pid}", check=False).returncode == 0


@pytest.fixture(scope="module")
def one(fleets):
    return Host(fleets(systemd=1))


@pytest.fixture
def host(one):
    yield one
    one.process(state="stopped")


def test_started_once_enabled_and_stopped(host):
    command = host.release("r1")
    first = host.process(argv=command)
    assert first["changed"], first
    assert first["actions"][-1] == f"systemctl restart {UNIT}"
    assert (first["pid"], first["state"]) == (int(host.shown("MainPID")), "active (running)")
    assert host.shown("UnitFileState") == "enabled"
    again = host.process(argv=command)
    assert (again["changed"], again["pid"]) == (False, first["pid"])
    stopped = host.process(state="stopped")
    assert (stopped["changed"], stopped["pid"], stopped["state"]) == (True, None, "inactive (dead)")
    assert not host.lives(first["pid"])
    assert not host.process(state="stopped")["changed"]


def test_what_runs_is_proven_by_the_process(host):
    """The unit is active and its file says current, but what runs is still the release before."""
    before = host.process(argv=host.release("r1"))
    command = host.release("r2")
    rehearsal = host.process("--check", "--diff", argv=command)
    assert rehearsal["changed"] and host.lives(before["pid"])
    after = host.process("--diff", argv=command)
    assert after["changed"] and not host.lives(before["pid"])
    assert f"-{INSTANCE}/releases/r1/launch.py +{INSTANCE}/releases/r2/launch.py" in after["said"]


def test_a_link_that_leads_elsewhere_is_noticed(host):
    host.release("r2")
    command = host.release("r1")
    host.run(f"ln -sfn releases/r2 {INSTANCE}/current")
    refused = host.process(argv=command)
    assert refused["msg"] == f"{UNIT} started {INSTANCE}/releases/r2/launch.py and not {command[-1]}."


def test_a_changed_unit_file_is_read_and_restarts_nothing(host):
    command = host.release("r1")
    before = host.process(argv=command)
    host.host.write(f"/etc/systemd/system/{UNIT}", FILE + "# changed\n")
    after = host.process(argv=command)
    assert (after["changed"], after["actions"], after["pid"]) == (True, ["systemctl daemon-reload"], before["pid"])
    assert not host.process(argv=command)["changed"]


def test_its_file_is_written_where_it_differs(host):
    command = host.release("r1")
    before = host.process(argv=command)
    changed = FILE + "# changed\n"
    assert not host.process(argv=command, unit_text=host.run(f"cat /etc/systemd/system/{UNIT}").stdout)["changed"]
    would = host.process("--check", "--diff", argv=command, unit_text=changed + "# twice\n")
    assert would["changed"] and "+# twice" in would["said"]
    assert "# twice" not in host.run(f"cat /etc/systemd/system/{UNIT}").stdout
    host.run(f"chmod 600 /etc/systemd/system/{UNIT}")
    for text in (FILE, changed):
        after = host.process(argv=command, unit_text=text)
    assert after["actions"] == [f"wrote /etc/systemd/system/{UNIT}", "systemctl daemon-reload"]
    assert (after["changed"], after["pid"]) == (True, before["pid"])
    assert (
        host.run(f"stat -c %a /etc/systemd/system/{UNIT}; cat /etc/systemd/system/{UNIT}").stdout == f"644\n{changed}"
    )
    assert not host.process(argv=command, unit_text=changed)["changed"]


def test_a_masked_unit_is_said_to_be_so(host):
    before = host.process(argv=host.release("r1"), unit_text=FILE)
    host.run(f"mv /etc/systemd/system/{UNIT} /keep; systemctl mask {UNIT}")
    refused = host.process(argv=host.release("r2"), unit_text=FILE)
    assert f"{UNIT} is a link to /dev/null" in refused["msg"] and "systemctl unmask" in refused["msg"]
    assert host.lives(before["pid"])
    host.run(f"systemctl unmask {UNIT}; mv /keep /etc/systemd/system/{UNIT}; systemctl daemon-reload")


def test_a_file_that_systemd_can_not_load_stops_nothing(host):
    before = host.process(argv=host.release("r1"), unit_text=FILE)
    command = host.release("r2")
    refused = host.process(argv=command, unit_text=FILE.replace("ExecStart=", "#ExecStart="))
    assert f"systemd can't load {UNIT}" in refused["msg"], refused
    assert host.lives(before["pid"])
    assert host.process(argv=command, unit_text=FILE)["launched"]


def test_a_server_that_ends_well_is_started_again_and_counted(host):
    command = host.release("r1")
    before = host.process(argv=command)
    wait_for("it listens", lambda: ":8000" in host.run("ss -ltn").stdout)
    host.run(f"kill -USR1 {before['pid']}")
    wait_for("it is back", lambda: host.shown("MainPID") not in ("0", str(before["pid"])))
    after = host.process(argv=command)
    assert (after["changed"], after["restarts"]) == (False, 1)


def test_a_server_that_never_stays_is_stopped(host):
    """Between two starts there is no process, and yet something that has to be stopped."""
    host.process(argv=host.release("ends", "ends"))
    slow = f"/run/systemd/system/{UNIT}.d"
    host.run(f"mkdir -p {slow} && printf '[Service]\\nRestartSec=30s\\n' > {slow}/slow.conf && systemctl daemon-reload")
    wait_for("systemd waits before the next start", lambda: host.shown("SubState") == "auto-restart")
    assert host.process(state="stopped")["actions"] == [f"systemctl stop --no-block {UNIT}"]
    assert host.shown("ActiveState") in ("inactive", "failed")
    host.run(f"rm -r {slow} && systemctl daemon-reload")


def test_a_deaf_server_is_killed_and_not_started_again(host):
    started = host.process(argv=host.release("deaf", "deaf"))
    wait_for("it listens", lambda: ":8000" in host.run("ss -ltn").stdout)
    stopped = host.process(state="stopped")
    assert [action.split(" to ")[0] for action in stopped["actions"]] == [
        f"systemctl stop --no-block {UNIT}",
        "sent TERM again",
        "sent KILL",
    ]
    assert not host.lives(started["pid"])
    assert host.shown("ActiveState") in ("inactive", "failed")


def test_what_another_supervisor_left_is_ended(host):
    """A process of this instance that no unit knows: it was started by hand, or before systemd was chosen."""
    command = host.release("r1", "stray")
    host.run(f"setsid -f {' '.join(command)} </dev/null >/dev/null 2>&1")
    wait_for("it listens", lambda: ":8000" in host.run("ss -ltn").stdout)
    left = [int(pid) for pid in host.run("pgrep -f 'server[.]py|time[.]sleep'").stdout.split()]
    started = host.process(argv=host.release("r2"))
    assert started["pid"], started
    assert all(f"pid {pid} (" in started["said"] for pid in left)
    assert not any(map(host.lives, left))


def test_a_strangers_port_is_named_and_nothing_is_stopped(host):
    running = host.process(argv=host.release("r1"), port=8001)
    host.run("setsid -f python3 -m http.server 8002 --bind 127.0.0.1 </dev/null >/dev/null 2>&1")
    wait_for("it listens", lambda: ":8002" in host.run("ss -ltn").stdout)
    refused = host.process(argv=host.release("r2"), port=8002)
    assert "Port 8002 on 127.0.0.1 is occupied by pid" in refused["msg"]
    assert "http.server" in refused["msg"]
    assert host.lives(running["pid"])


def test_a_unit_that_is_not_there_is_said(host):
    refused = host.process(argv=host.release("r1"), unit="vllm-nowhere.service")
    assert refused["msg"] == "systemd can't load vllm-nowhere.service: Unit vllm-nowhere.service not found."


def test_a_missing_program_is_said(host):
    refused = host.process(argv=["/nowhere/python", f"{INSTANCE}/releases/r1/launch.py"])
    assert refused["msg"] == "There is no program /nowhere/python on this host. Nothing was stopped or started."

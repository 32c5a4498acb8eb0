"""log_wait on the journal of a real systemd's unit, whose program says what vLLM was heard to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

CLONE = Path(__file__).parents[2]
LOGS = CLONE / "tests/corpus/logs"
UNIT = "server.service"
# Each life says what was laid out for it, some of it once it is told to, and then goes on living or ends as it was told.
SERVER = """
for life in /srv/lives/*; do break; done
mv "$life" /srv/life || exec sleep 600
cat /srv/life/first
if [ -e /srv/life/last ]; then
  until [ -e /srv/go ]; do sleep 0.1; done
  rm /srv/go
  cat /srv/life/last
fi
end=$(cat /srv/life/end)
rm -r /srv/life
eval "$end"
"""
FILE = """
[Service]
ExecStart=/bin/sh /srv/server.sh
Restart=always
RestartSec=1
"""
LIVES = "exec sleep 600"


class Server:
    def __init__(self, fleet) -> None:
        self.fleet = fleet
        (self.host,) = fleet.hosts
        self.host.write("/srv/server.sh", SERVER)
        self.host.write(f"/etc/systemd/system/{UNIT}", FILE)

    def live(self, *lives: tuple[str, str, str]) -> None:
        """Start it, to live these lives: what each says first, what it says once it is told to go on, and how it ends."""
        self.host.run(f"systemctl stop {UNIT}; rm -rf /srv/lives /srv/life /srv/go; systemctl daemon-reload")
        for number, (first, last, end) in enumerate(lives):
            self.host.write(f"/srv/lives/{number}/first", first)
            self.host.write(f"/srv/lives/{number}/end", end)
            if last:
                self.host.write(f"/srv/lives/{number}/last", last)
        self.host.run(f"systemctl reset-failed; systemctl start {UNIT}")

    def wait(self, **arguments: object) -> subprocess.Popen[str]:
        command = [
            Path(sys.executable).with_name("ansible"),
            "all",
            "-i",
            self.fleet.inventory,
            "-m",
            "llmops.vllm.log_wait",
        ]
        return subprocess.Popen(
            [*command, "-a", json.dumps({"unit": UNIT, "timeout": 60, **arguments})],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def told(self, waiting: subprocess.Popen[str] | None = None, **arguments: object) -> dict:
        out, _unused = (waiting or self.wait(**arguments)).communicate(timeout=90)
        return {**json.loads(out[out.index("=> ") + 3 :]), "failed": f"{self.host.name} | FAILED!" in out}

    def followed(self) -> None:
        """Once somebody reads its journal as it comes."""
        reader = "pgrep -f 'journalctl .*--follow'"
        wait_for("the journal is followed", lambda: self.host.run(reader, check=False).returncode == 0)

    def go_on(self) -> None:
        self.followed()
        self.host.run("touch /srv/go")


@pytest.fixture(scope="module")
def server(fleets):
    return Server(fleets(systemd=1))


def parts(name: str, cut: str) -> tuple[str, str]:
    """A log in two, before a line that holds these words."""
    log = (LOGS / f"{name}.log").read_text()
    at = log.rindex("\n", 0, log.index(cut)) + 1
    return log[:at], log[at:]


def test_ready_by_what_it_said_since_it_was_started(server):
    server.live((*parts("port-in-use", "Traceback"), "exit 1"), (*parts("ready", "Application startup"), LIVES))
    first = server.wait()
    server.go_on()
    failed = server.told(first)
    assert (failed["verdict"], failed["cause"]["kind"]) == ("failed", "port"), failed

    wait_for("it lives again", lambda: server.host.run("ls /srv/lives", check=False).stdout == "")
    second = server.wait()
    server.go_on()
    ready = server.told(second)
    assert ready["verdict"] == "ready", ready
    assert ready["facts"]["auxiliary_layers"] == [2, 4, 6]
    assert "loading the drafter" in [stage["name"] for stage in ready["stages"]]
    assert "warnings" not in ready, "of the life before nothing was read"
    again = server.told(mark=ready["mark"], timeout=0)
    assert (again["verdict"], again["lines"]) == ("pending", 0)


def test_a_failing_start_with_its_cause(server):
    server.live((*parts("no-window", "WorkerProc failed"), "exit 1"), ("", "", LIVES))
    waiting = server.wait()
    server.go_on()
    told = server.told(waiting)
    assert (told["verdict"], told["was_ready"], told["cause"]["kind"]) == ("failed", False, "window")
    assert "DFlash sliding attention requires a window size" in told["cause"]["text"]
    assert f"Where: the journal of {UNIT}:{told['cause']['number']} (Worker" in told["msg"]


def test_killed_without_a_word_of_its_own(server):
    server.live((*parts("quiet", "Triton is not installed"), "kill -KILL $$"), ("", "", LIVES))
    waiting = server.wait()
    server.go_on()
    told = server.told(waiting)
    assert (told["verdict"], told["cause"]["kind"], told["cause"]["process"]) == ("failed", "killed", "systemd pid=1")
    assert f"{UNIT}: Main process exited, code=killed, status=9/KILL" in told["cause"]["text"]
    assert "was killed by signal 9 (SIGKILL)" in told["msg"]


def test_stopped(server):
    server.live(((LOGS / "quiet.log").read_text(), "", LIVES))
    waiting = server.wait()
    server.followed()
    server.host.run(f"systemctl stop {UNIT}")
    told = server.told(waiting)
    assert (told["verdict"], told["failed"]) == ("stopped", True)


def test_there_is_no_such_unit(server):
    told = server.told(unit="nothing.service", timeout=0)
    assert told["failed"] and told["msg"] == "There is no unit nothing.service on this host."


def test_dead_before_anybody_looked(server):
    """It waits to be started again, and what it said before its end still counts."""
    slow = f"/run/systemd/system/{UNIT}.d"
    server.host.run(f"mkdir -p {slow} && printf '[Service]\\nRestartSec=60s\\n' > {slow}/slow.conf")
    server.live(((LOGS / "port-in-use.log").read_text(), "", "exit 1"))
    state = f"systemctl show --property SubState --value {UNIT}"
    wait_for("systemd waits before the next start", lambda: server.host.run(state).stdout == "auto-restart\n")
    told = server.told()
    server.host.run(f"rm -r {slow} && systemctl daemon-reload")
    assert told["verdict"] == "failed"
    assert "address already in use" in told["msg"]

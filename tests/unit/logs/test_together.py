"""The waits of several hosts that are one. Real files, a thread for every host, and time that runs faster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.common.collections import ImmutableDict

from ansible_collections.llmops.vllm.plugins.action import log_wait
from ansible_collections.llmops.vllm.plugins.action.log_wait import ActionModule
from ansible_collections.llmops.vllm.plugins.plugin_utils import together
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import log

CLONE = Path(__file__).parents[3]

HEAD, FOLLOWER, THIRD = "gpu1", "gpu2", "gpu3"
PENDING = {"verdict": "pending", "was_ready": False, "elapsed": 1.0, "facts": {"version": "0.32.0"}, "_state": "s"}
READY = {"verdict": "ready", "was_ready": True, "msg": "The server is ready, after 9 s."}
FAILED = {"failed": True, "verdict": "failed", "msg": "The server failed.\nCause: ValueError: the real one"}
LOST = AnsibleConnectionFailure("Connection timed out")
FOREVER = 99


@pytest.fixture(autouse=True)
def hasty(monkeypatch, tmp_path):
    for name, seconds in (("FIRST", 0.01), ("NEXT", 0.05), ("LAST", 0.02), ("LOST", 1), ("WATCHED", 0.2)):
        monkeypatch.setattr(together, name, seconds)
    monkeypatch.setattr(log_wait, "RETRY", 0.02)
    monkeypatch.setattr(together.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    shown = []
    monkeypatch.setattr(log_wait.display, "display", shown.append)
    return shown


class Host:
    """What a host answers, one a slice, the last one for ever. A number is how many more slices the one before is answered in."""

    def __init__(self, name, *answers, timeout=20, hosts=(HEAD, FOLLOWER), **given):
        self.name, self.slices = name, []
        self.arguments = {"path": "/x", "timeout": timeout}
        self.arguments["together"] = {"key": "launch 1", "leader": HEAD, "hosts": list(hosts), **given}
        self.left = []
        for answer in answers:
            self.left += [self.left[-1]] * answer if isinstance(answer, int) else [answer]
        self.told = self.raised = None

    def answer(self, module_args, task_vars):
        self.slices.append(module_args["slice"]["seconds"])
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        time.sleep(min(module_args["slice"]["seconds"], 0.1))
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    def wait(self):
        action = ActionModule.__new__(ActionModule)
        action._task, action._execute_module = types.SimpleNamespace(timeout=0), self.answer
        action._connection = types.SimpleNamespace(reset=lambda: None)
        try:
            self.told = action._wait(self.arguments, {"inventory_hostname": self.name})
        except BaseException as e:
            self.raised = e


def wait(*hosts):
    threads = [threading.Thread(target=host.wait) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return hosts


def verdicts(*hosts):
    return [host.told and host.told["verdict"] for host in hosts]


def test_the_others_are_ready_as_the_leader_is():
    head, follower = wait(Host(HEAD, PENDING, 12, READY), Host(FOLLOWER, PENDING))
    assert head.told == READY
    assert follower.told["verdict"] == "ready" and follower.told["was_ready"] and not follower.told.get("failed")
    assert follower.told["msg"] == "The server is ready, as gpu1 is."
    assert follower.told["facts"] == PENDING["facts"]
    assert not [name for name in follower.told if name.startswith("_")]
    assert (follower.slices[0], set(follower.slices[1:])) == (together.FIRST, {together.NEXT})


def test_one_that_says_ready_itself_waits_for_the_leader():
    head, follower = wait(Host(HEAD, PENDING, 12, READY), Host(FOLLOWER, PENDING, READY))
    assert (head.told, follower.told) == (READY, READY)
    assert len(follower.slices) > 2, "it went on when it was ready itself"


def test_one_that_was_ready_and_then_failed_has_failed():
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, READY, 3, FAILED))
    assert follower.told == FAILED
    assert verdicts(head) == ["elsewhere"]


def test_the_first_failure_ends_the_waits_of_all():
    hosts = (HEAD, FOLLOWER, THIRD)
    head, follower, third = wait(
        Host(HEAD, PENDING, hosts=hosts),
        Host(FOLLOWER, PENDING, 3, FAILED, hosts=hosts),
        Host(THIRD, PENDING, hosts=hosts),
    )
    assert follower.told == FAILED
    for other in (head, third):
        assert other.told["failed"] and other.told["verdict"] == "elsewhere"
        assert other.told["msg"] == "The wait ended, as gpu2 failed: The server failed."
        assert other.told["facts"] == PENDING["facts"]
        assert other.slices[-1] == together.LAST and other.slices.count(together.LAST) == 1


@pytest.mark.parametrize("verdict", ["exited", "stopped", "stalled", "timeout", "missing"])
def test_whatever_a_failure_is(verdict):
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, {**FAILED, "verdict": verdict}))
    assert verdicts(head, follower) == ["elsewhere", verdict]


def test_a_module_that_could_not_even_run_is_one():
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, {"failed": True, "msg": "no Python"}))
    assert follower.told == {"failed": True, "msg": "no Python"}
    assert head.told["msg"] == "The wait ended, as gpu2 failed: no Python"


def test_an_own_cause_comes_to_light_in_the_last_slice(tmp_path):
    """The head noticed first that the follower was gone; why, only the follower knows."""
    peer = {**FAILED, "msg": "The server failed.\nCause: Connection closed by peer"}
    Host(HEAD, peer).wait()
    follower = Host(FOLLOWER, FAILED)
    follower.wait()
    assert follower.told == FAILED
    assert follower.slices == [together.LAST]


def test_a_leader_that_is_ready_without_all_others_is_not():
    Host(FOLLOWER, FAILED).wait()
    head = Host(HEAD, READY)
    head.wait()
    assert head.told["failed"] and head.told["verdict"] == "elsewhere"
    assert head.told["was_ready"]


def test_who_ended_as_another_failed_is_no_cause():
    hosts = (HEAD, FOLLOWER, THIRD)
    Host(FOLLOWER, FAILED, hosts=hosts).wait()
    Host(HEAD, PENDING, hosts=hosts).wait()
    third = Host(THIRD, PENDING, hosts=hosts)
    third.wait()
    assert third.told["msg"] == "The wait ended, as gpu2 failed: The server failed."


def test_a_host_that_is_lost_for_long_has_failed(hasty):
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, PENDING, 2, LOST))
    assert follower.raised is LOST
    assert head.told["verdict"] == "elsewhere"
    assert head.told["msg"] == "The wait ended, as gpu2 has not been reached for 1 s."
    assert sum("connection lost" in line for line in hasty) == 1


def test_a_host_that_comes_back_in_time_has_not(hasty):
    head, follower = wait(Host(HEAD, PENDING, 20, READY), Host(FOLLOWER, PENDING, LOST, 4, PENDING))
    assert verdicts(head, follower) == ["ready", "ready"]
    assert sum("connection lost" in line for line in hasty) == 1


def test_a_lost_host_hears_of_a_failure_as_well():
    head, follower = wait(Host(HEAD, PENDING, 5, FAILED), Host(FOLLOWER, PENDING, LOST))
    assert head.told == FAILED
    assert follower.told["verdict"] == "elsewhere" and follower.told["facts"] == PENDING["facts"]


def test_a_host_that_was_never_reached_is_raised_and_the_others_hear_why():
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, LOST))
    assert follower.raised is LOST
    assert head.told["msg"] == "The wait ended, as gpu2 failed: Connection timed out"


def test_a_wait_that_is_interrupted_is_heard_of():
    head, follower = wait(Host(HEAD, PENDING), Host(FOLLOWER, PENDING, KeyboardInterrupt()))
    assert isinstance(follower.raised, KeyboardInterrupt)
    assert head.told["msg"] == "The wait ended, as gpu2 failed: its wait was ended by KeyboardInterrupt."


def test_a_controller_that_slept_takes_nobody_for_lost(monkeypatch):
    """All that anybody said is old then; first they have to be watched."""
    monkeypatch.setattr(together, "LOST", 60)
    monkeypatch.setattr(together, "WATCHED", 10)
    now = [1000.0]
    monkeypatch.setattr(together.time, "monotonic", lambda: now[0])
    hosts = [together.company(Host(name, PENDING).arguments["together"], name) for name in (HEAD, FOLLOWER)]
    for one in hosts:
        one.answered()
    head, follower = hosts
    now[0] += 3600
    assert not head.failure()
    now[0] += 4
    assert not head.failure()
    follower.answered()
    now[0] += 55
    assert not head.failure()
    now[0] += 6
    assert not head.failure()
    now[0] += 4
    assert head.failure() == "The wait ended, as gpu2 has not been reached for 60 s."


def test_time_is_up_for_one_that_is_ready_alone():
    head = Host(HEAD, PENDING, 99)
    together.company(head.arguments["together"], HEAD).answered()
    follower = Host(FOLLOWER, READY, timeout=0.2)
    follower.wait()
    assert follower.told["failed"] and follower.told["verdict"] == "timeout"
    assert follower.told["msg"] == "gpu2 is ready, and its leader gpu1 is not, though time is up."


def test_when_time_is_up_it_is_said_who_never_took_part():
    head = Host(HEAD, {**FAILED, "verdict": "timeout", "msg": "The server is not ready after 9 s."})
    head.wait()
    assert head.told["msg"].splitlines()[1].startswith("gpu2 never began to wait: ")


def test_waits_of_another_launch_are_others():
    Host(FOLLOWER, FAILED, key="launch 0").wait()
    head, follower = wait(Host(HEAD, PENDING, 3, READY), Host(FOLLOWER, PENDING))
    assert verdicts(head, follower) == ["ready", "ready"]


@pytest.mark.parametrize("given", [None, {}])
def test_a_wait_of_its_own_leaves_no_traces(given, tmp_path):
    host = Host(HEAD, READY)
    host.arguments["together"] = given
    host.wait()
    assert host.told == READY and host.slices == [log_wait.SLICE]
    assert not list(tmp_path.iterdir())


def test_a_look_at_what_is_there_concerns_nobody_else(tmp_path):
    host = Host(HEAD, READY, timeout=0)
    host.wait()
    assert host.told == READY
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gpu1,gpu2", "it has to be a dictionary with a key, the leader and the list of all hosts"),
        ({"leader": HEAD, "hosts": [HEAD]}, "it has to be a dictionary with a key"),
        ({"key": "x", "leader": HEAD, "hosts": "gpu1"}, "it has to be a dictionary with a key"),
        ({"key": "x", "leader": "other", "hosts": [HEAD]}, "other is none of the hosts, which are gpu1."),
        ({"key": "x", "leader": FOLLOWER, "hosts": [FOLLOWER]}, "gpu1 is none of the hosts, which are gpu2."),
    ],
)
def test_what_can_not_be_is_said(given, said):
    host = Host(HEAD, READY)
    host.arguments["together"] = given
    host.wait()
    assert host.told["failed"] and said in host.told["msg"]
    assert host.slices == []


def test_too_few_forks_are_said(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(forks=1))
    host = Host(HEAD, READY)
    host.wait()
    assert (
        host.told["failed"]
        and "Ansible runs 1 at a time. Set forks in ansible.cfg, or add --forks 2." in host.told["msg"]
    )


class NoRoom:
    """A controller whose disk is full from the n-th file on."""

    def __init__(self, monkeypatch, after):
        self.left, self.replace = after, together.os.replace
        monkeypatch.setattr(together.os, "replace", self)

    def __call__(self, *paths):
        if self.left <= 0:
            raise OSError(28, "No space left on device")
        self.left -= 1
        self.replace(*paths)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_of_the_controller_fails_the_wait(monkeypatch, after):
    NoRoom(monkeypatch, after)
    host = Host(HEAD, PENDING)
    host.wait()
    assert host.told["failed"]
    assert (
        "what is known of gpu1 can't be written for the others: [Errno 28] No space left on device" in host.told["msg"]
    )


def test_with_a_full_disk_a_failure_is_told_all_the_same(monkeypatch):
    NoRoom(monkeypatch, 1)
    host = Host(HEAD, FAILED)
    host.wait()
    assert (host.told["verdict"], host.told["msg"]) == ("failed", FAILED["msg"])
    assert "No space left on device" in host.told["warnings"][0]


def test_with_a_full_disk_a_leader_that_is_ready_fails_since_nobody_hears_of_it(monkeypatch):
    NoRoom(monkeypatch, 1)
    host = Host(HEAD, READY)
    host.wait()
    assert host.told["failed"] and host.told["was_ready"]
    assert "No space left on device" in host.told["msg"] and READY["msg"] in host.told["msg"]


def test_what_can_not_be_read_is_said(tmp_path):
    Host(FOLLOWER, FAILED).wait()
    (file,) = tmp_path.glob("together-*/*.json")
    file.write_text("{}")
    host = Host(HEAD, READY)
    host.wait()
    assert host.told["failed"] and "what is known of gpu2 can't be read" in host.told["msg"]


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      llmops.vllm.log_wait:
        path: {place}/{{{{ inventory_hostname }}}}.log
        timeout: 60
        together: {{key: one, leader: gpu1, hosts: "{{{{ ansible_play_hosts }}}}"}}
      register: told
      failed_when: false
    - name: Hand over
      ansible.builtin.copy:
        content: "{{{{ told | to_json }}}}"
        dest: {place}/{{{{ inventory_hostname }}}}.json
        mode: "0600"
"""


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        (("logs/ready", "logs/quiet"), ("ready", "ready")),
        (("logs/quiet", "logs/kv-memory"), ("elsewhere", "failed")),
    ],
)
def test_forks_of_a_play_hear_of_each_other(tmp_path, logs, expected):
    for host, name in zip((HEAD, FOLLOWER), logs):
        (tmp_path / f"{host}.log").write_bytes(log(name))
    (tmp_path / "play.yml").write_text(PLAY.format(place=tmp_path))
    local, home = tmp_path / "local", {"ANSIBLE_CONFIG": str(CLONE / "ansible.cfg")}
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "gpu1,gpu2", "-c", "local", str(tmp_path / "play.yml")],
        capture_output=True,
        text=True,
        cwd=CLONE,
        env={**os.environ, **home, "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_LOCAL_TEMP": str(local)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads((tmp_path / f"{host}.json").read_text()) for host in (HEAD, FOLLOWER)]
    assert tuple(one["verdict"] for one in told) == expected
    assert not list(local.iterdir()), "nothing is left of it"

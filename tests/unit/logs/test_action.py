"""The controller's side. What a host answers is written here, slice by slice: a connection can't be cut without one."""

from __future__ import annotations

import signal
import time
import types

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure

from ansible_collections.llmops.vllm.plugins.action import log_wait
from ansible_collections.llmops.vllm.plugins.action.log_wait import ActionModule


class Connection:
    resets = 0

    def reset(self):
        self.resets += 1


def pending(stage, percent=None, elapsed=10.0):
    return {
        "verdict": "pending",
        "elapsed": elapsed,
        "_state": f"after {stage}",
        "_progress": {"stage": stage, "percent": percent},
    }


READY = {"verdict": "ready", "invocation": {"module_args": {"path": "/x", "slice": {}}}}


@pytest.fixture
def action(monkeypatch):
    """An action plugin whose host gives these answers, one a slice; an exception is raised, a number of seconds is slept."""
    shown = []
    monkeypatch.setattr(log_wait.display, "display", shown.append)
    monkeypatch.setattr(log_wait, "RETRY", 0)

    def wait(*answers, timeout=1800, task_timeout=0):
        one = ActionModule.__new__(ActionModule)
        one._task, one._connection = types.SimpleNamespace(timeout=task_timeout), Connection()
        one.asked = []
        left = list(answers)

        def execute(module_args, task_vars):
            one.asked.append(module_args)
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, float):
                time.sleep(answer)
                return pending("late")
            return dict(answer)

        one._execute_module = execute
        try:
            one.told = one._wait({"path": "/x", "timeout": timeout}, {"inventory_hostname": "gpu1"})
        finally:
            wait.last = one
        return one

    wait.shown = shown
    return wait


def test_slices_hand_on_their_state(action):
    one = action(pending("starting the engine"), pending("loading the weights"), READY)
    assert [a["slice"]["state"] for a in one.asked] == ["", "after starting the engine", "after loading the weights"]
    assert all(a["path"] == "/x" and a["slice"]["seconds"] == log_wait.SLICE for a in one.asked)
    assert one.told == {"verdict": "ready", "invocation": {"module_args": {"path": "/x"}}}


def test_progress_is_shown_once_per_stage(action):
    action(
        pending("starting the engine", elapsed=10.2),
        pending("loading the weights", 12, elapsed=20.4),
        pending("loading the weights", 60, elapsed=30.6),
        pending("", elapsed=40.8),
        READY,
    )
    assert action.shown == ["[gpu1] starting the engine (10 s)", "[gpu1] loading the weights 12 % (20 s)"]


def test_a_lost_connection_costs_a_slice(action):
    lost = AnsibleConnectionFailure("gone")
    one = action(pending("loading the weights"), lost, lost, pending("loading the weights"), lost, READY)
    assert [a["slice"]["reconnects"] for a in one.asked] == [0, 0, 1, 1, 1, 2]
    assert one.asked[2]["slice"]["state"] == one.asked[3]["slice"]["state"] == "after loading the weights"
    assert one._connection.resets == 3
    assert sum("connection lost" in line for line in action.shown) == 2


def test_a_host_that_does_not_come_back_is_unreachable(action):
    with pytest.raises(AnsibleConnectionFailure, match="gone"):
        action(pending("loading the weights"), AnsibleConnectionFailure("gone"), timeout=0)


@pytest.mark.parametrize(
    "answers",
    [
        [AnsibleConnectionFailure("no route")],
        [AnsibleAuthenticationFailure("wrong password")],
        [pending("loading the weights"), AnsibleAuthenticationFailure("wrong password")],
        [
            pending("loading the weights"),
            AnsibleConnectionFailure("gone"),
            AnsibleAuthenticationFailure("wrong password"),
        ],
    ],
)
def test_who_is_refused_or_was_never_there_is_not_asked_again(action, answers):
    with pytest.raises(type(answers[-1]), match=str(answers[-1])):
        action(*answers, READY)
    assert len(action.last.asked) == len(answers)


def test_a_slice_that_does_not_come_back_is_a_lost_connection(action, monkeypatch):
    monkeypatch.setattr(log_wait, "SLICE", 0)
    monkeypatch.setattr(log_wait, "OVERDUE", 0.1)
    one = action(30.0, READY)
    assert [a["slice"]["reconnects"] for a in one.asked] == [0, 1]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_slow_host_is_given_more_time(action, monkeypatch):
    monkeypatch.setattr(log_wait, "SLICE", 0)
    monkeypatch.setattr(log_wait, "OVERDUE", 1)
    one = action(1.5, 1.5, READY)
    assert [a["slice"]["reconnects"] for a in one.asked] == [0, 1, 1]


def test_a_slice_that_does_not_come_back_in_time_is_unreachable(action, monkeypatch):
    monkeypatch.setattr(log_wait, "SLICE", 0)
    monkeypatch.setattr(log_wait, "OVERDUE", 0.1)
    with pytest.raises(AnsibleConnectionFailure, match="did not answer"):
        action(30.0, timeout=0)


def test_the_alarm_of_a_task_with_a_timeout_is_left_alone(action, monkeypatch):
    monkeypatch.setattr(log_wait, "SLICE", 0)
    monkeypatch.setattr(log_wait, "OVERDUE", 0.1)
    one = action(0.3, READY, task_timeout=60)
    assert one.told["verdict"] == "ready"
    assert action.shown == ["[gpu1] late (10 s)"]


def test_a_timeout_that_is_no_number_is_left_to_the_module(action):
    one = action({"failed": True, "msg": "argument 'timeout' is of type str"}, timeout="soon")
    assert one.told["failed"]

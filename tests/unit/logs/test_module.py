"""log_wait as Ansible runs it: the module with its arguments, and the action plugin in a play."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs import outcome
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import CORPUS, log

CLONE = Path(__file__).parents[3]
MODULE = CLONE / "plugins/modules/log_wait.py"
# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = f"""
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path({str(MODULE)!r}, run_name="__main__")
"""


@pytest.fixture
def module(tmp_path):
    def call(check=False, **params):
        given = {"_ansible_check_mode": check, "_ansible_tmpdir": str(tmp_path), "_ansible_remote_tmp": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROFILED],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": {**given, **params}}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


def test_ready(module):
    told = module(path=str(CORPUS / "logs/ready.log"), timeout=0)
    assert not told.get("failed") and not told["changed"]
    assert (told["verdict"], told["was_ready"], told["reconnects"]) == ("ready", True, 0)
    assert told["matched"] == {
        "line": "INFO:     Application startup complete.", "number": 127, "text": "Application startup complete."
    }  # fmt: skip
    assert told["facts"]["auxiliary_layers"] == [2, 4, 6]
    assert (told["facts"]["version"], told["facts"]["world_size"]) == ("0.32.0", 1)
    assert told["facts"]["kv_tokens"] > 1000
    assert [s["name"] for s in told["stages"]] == [
        "reading the configuration", "starting the engine", "joining the workers", "loading the weights",
        "loading the drafter", "sizing the KV cache", "starting the HTTP server",
    ]  # fmt: skip
    assert told["bytes"] == told["mark"]["offset"] == len(log("logs/ready"))
    assert told["lines"] == 127
    assert told["msg"] == "The server is ready."


def test_failed(module):
    told = module(path=str(CORPUS / "logs/no-window.log"), context=3)
    assert told["failed"]
    assert set(told["cause"]) == {"kind", "number", "process", "text", "hint", "context"}
    assert len(told["cause"]["context"]) == 3
    cause, where, remedy = told["msg"].splitlines()[1:]
    assert told["msg"].splitlines()[0] == "The server failed (last stage: loading the drafter)."
    assert cause.startswith("Cause: ValueError: DFlash sliding attention requires a window size")
    assert where == f"Where: {CORPUS}/logs/no-window.log:115 ({told['cause']['process']})"
    assert remedy.startswith("Remedy: The drafter's config.json has sliding layers without a window")


def test_a_second_wait_from_the_mark_of_the_first(module, path):
    path.write_bytes(log("logs/ready"))
    first = module(path=str(path), timeout=0)
    with path.open("ab") as f:
        f.write(b"(EngineCore pid=9) ERROR 11-30 06:49:31 [core.py:1512] EngineCore encountered a fatal error.\n")
    told = module(path=str(path), mark=first["mark"], timeout=0)
    assert (told["verdict"], told["was_ready"], told["matched"]["number"]) == ("failed", False, 128)
    assert module(path=str(path), timeout=0)["was_ready"]


def test_secrets_are_masked(module, path):
    path.write_bytes(
        b"Traceback (most recent call last):\n"
        b'  File "/opt/vllm/bin/vllm", line 8, in <module> # hf_abcdefghijklmnopqrstuv\n'
        b"OSError: 401 Client Error for https://user:s3cr3t-s3cr3t@example.com/ with token=s3cr3t-s3cr3t\n"
    )
    told = json.dumps(module(path=str(path), timeout=0))
    assert "401 Client Error" in told
    assert "s3cr3t" not in told
    assert "hf_abc" not in told


def test_check_mode_says_what_it_would_wait_for(module):
    told = module(check=True, path="/nowhere/server.log", timeout=600)
    assert not told.get("failed") and not told["changed"]
    assert told["msg"] == "Would wait up to 600 s for a ready vLLM server in /nowhere/server.log."
    assert told["verdict"] == "pending"
    told = module(check=True, path="/nowhere/server.log", timeout=0)
    assert told["msg"] == "Would look once for a ready vLLM server in /nowhere/server.log."


@pytest.mark.parametrize("check", [True, False])
def test_an_address_that_can_not_be_asked_is_said_at_once(module, check):
    told = module(check=check, path="/nowhere/server.log", timeout=0, probe={"url": "127.0.0.1:8000"})
    assert told["failed"]
    assert "'127.0.0.1:8000' is not an address like http://" in told["msg"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"timeout": 0}, "one of the following is required: path, unit"),
        ({"path": "/x", "ready": ["("]}, "ready: '(' is not a regular expression"),
        ({"path": "/"}, "/ is not a regular file."),
        ({"path": "/proc/self/mem"}, "Can't read /proc/self/mem: Input/output error."),
    ],
)
def test_what_can_not_be_done_is_said(module, params, message):
    told = module(**{"timeout": 0, **params})
    assert told["failed"]
    assert message in told["msg"]


def test_a_slice_hands_on_what_it_knows_unreadably(module, path):
    path.write_bytes(log("logs/quiet") + b"token=s3cr3t-s3cr3t")
    told = module(path=str(path), slice={"seconds": 0, "elapsed": 3, "reconnects": 1})
    assert (told["verdict"], told["_progress"]["stage"]) == ("pending", "loading the weights")
    assert "s3cr3t" not in json.dumps(told)
    assert outcome.unpack(told["_state"])["bytes"] == len(log("logs/quiet"))
    with path.open("ab") as f:
        f.write(b"\nINFO:     Application startup complete.\n")
    told = module(path=str(path), slice={"seconds": 9, "elapsed": 20, "reconnects": 1, "state": told["_state"]})
    assert (told["verdict"], told["lines"]) == ("ready", log("logs/quiet").count(b"\n") + 2)
    assert told["elapsed"] >= 20
    assert told["msg"].splitlines()[1] == "The connection to the host was lost and made again once."


def test_progress_shows_no_secrets(module, path):
    path.write_bytes(b"step one, with token=s3cr3t-s3cr3t\n")
    told = module(path=str(path), profile="none", stages=["^(step .*)"], slice={"seconds": 0, "elapsed": 3})
    assert told["_progress"]["stage"] == "step one, with token=********"


def test_slices_in_which_nothing_happens(module, path):
    path.write_bytes(log("logs/quiet"))
    told = module(path=str(path), slice={"seconds": 0, "elapsed": 3})
    for elapsed in (4, 5):
        told = module(path=str(path), slice={"seconds": 0, "elapsed": elapsed, "state": told["_state"]})
        assert outcome.unpack(told["_state"])["bytes"] == len(log("logs/quiet"))


def test_a_log_that_was_not_there_at_first_is_all_new(module, path):
    told = module(path=str(path), since="end", slice={"seconds": 0, "elapsed": 3})
    path.write_bytes(log("logs/ready"))
    told = module(path=str(path), since="end", slice={"seconds": 9, "elapsed": 4, "state": told["_state"]})
    assert (told["verdict"], told["lines"]) == ("ready", 127)


def test_a_log_that_was_there_at_first_is_read_from_where_it_ended(module, path):
    path.write_bytes(log("logs/ready"))
    told = module(path=str(path), since="end", slice={"seconds": 0, "elapsed": 3})
    told = module(path=str(path), since="end", slice={"seconds": 0, "elapsed": 4, "state": told["_state"]})
    assert (told["verdict"], told["lines"]) == ("pending", 0)


def test_a_look_at_a_log_that_one_slice_is_too_short_for(module, path):
    """Each slice reads a part and hands on; only the last one gives a verdict."""
    path.write_bytes(log("logs/ready") + b"x" * 1_000_000 + b"\n" + log("logs/fc-shape"))
    told, slices = {"_state": ""}, 0
    while "_state" in told:
        slices += 1
        told = module(path=str(path), timeout=0, slice={"seconds": 0, "elapsed": slices / 10, "state": told["_state"]})
    assert slices > 1
    assert (told["verdict"], told["bytes"], told["mark"]["offset"]) == (
        "failed",
        path.stat().st_size,
        path.stat().st_size,
    )


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      llmops.vllm.log_wait:
        path: {path}
        timeout: 60
      register: told
    - name: Hand over
      ansible.builtin.copy:
        content: "{{{{ told | to_json }}}}"
        dest: {path}.json
        mode: "0600"
"""


def play(path, *options):
    playbook = path.with_suffix(".yml")
    playbook.write_text(PLAY.format(path=path))
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "gpu1,", "-c", "local", str(playbook), *options]
    env = {**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, cwd=CLONE, env=env, timeout=120, check=False)


def test_in_a_play(path):
    path.write_bytes(log("logs/ready"))
    done = play(path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(path.with_suffix(".log.json").read_text())
    assert told["verdict"] == "ready"
    assert not [name for name in told if name.startswith("_")]


def test_in_a_play_a_failure_is_told_in_full(path):
    path.write_bytes(log("logs/port-in-use"))
    done = play(path, "-vvv")
    assert done.returncode == 2
    assert "Cause: OSError: [Errno 98] Address already in use" in done.stdout + done.stderr
    assert "slice" not in done.stdout


def test_check_mode_in_a_play(path):
    done = play(path, "--check", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would wait up to 60 s" in done.stdout

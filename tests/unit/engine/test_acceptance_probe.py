"""The module as Ansible runs it: a process that is given its arguments and prints one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]
MODULE = CLONE / "plugins/modules/acceptance_probe.py"
# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = """
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path("{module}", run_name="__main__")
"""


@pytest.fixture
def call(engine, tmp_path):
    def call(check=False, **params):
        args = {
            "url": engine.url,
            "min_drafts": 10,
            **params,
            "_ansible_check_mode": check,
            "_ansible_tmpdir": str(tmp_path),
            "_ansible_remote_tmp": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROFILED.format(module=MODULE)],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(CLONE / ".collections"), *sys.path])},
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


def test_passes(engine, call):
    result = call(acceptance_length=5.0, position_0=1)
    assert (result["verdict"], result["changed"], result.get("failed")) == ("pass", False, None)
    assert (result["requests"], result["drafts"], result["acceptance_length"]) == (12, 120, 5.0)
    assert (result["model"], result["version"]) == ("tiny", "0.32.0")
    assert result["phases"]["short"]["drafts"] == 120
    assert result["msg"].startswith("Acceptance length 5.00, as wanted.\nEvidence: 480 of 840 drafted tokens")


def test_fails_with_the_figures(engine, call):
    result = call(acceptance_length=6)
    assert (result["verdict"], result["failed"], result["changed"]) == ("fail", True, False)
    assert (result["drafts"], result["per_position"]) == (120, [1, 1, 1, 1, 0, 0, 0])
    assert "acceptance length 5.00, wanted at least 6.00" in result["msg"]
    assert "breaks off after 4 tokens" in result["diagnosis"]


def test_measures_only_but_warns_of_a_fault(engine, call):
    engine.accepted = 0
    result = call()
    assert result["verdict"] == "pass"
    assert any("not even the first drafted token" in str(w) for w in result["warnings"])


def test_what_it_returned_is_a_baseline(engine, call):
    before = call()
    before.pop("warnings")
    assert call(baseline=before)["verdict"] == "pass"
    engine.accepted = 3
    after = call(baseline=before)
    assert after["verdict"] == "fail"
    assert "4.00 in phase short is 20% below the 5.00 of the baseline, more than 10%" in after["msg"]


@pytest.mark.parametrize(
    ("knob", "verdict"),
    [({"speculates": False}, "no_speculation"), ({"hidden": True}, "insufficient"), ({"asleep": True}, "unreachable")],
)
def test_every_other_verdict_fails(engine, call, knob, verdict):
    vars(engine).update(knob)
    result = call()
    assert (result["verdict"], result["failed"]) == (verdict, True)
    assert "Evidence: " in result["msg"]
    assert "Remedy: " in result["msg"]
    assert result["diagnosis"]


def test_check_mode_sends_nothing(engine, call):
    result = call(check=True, phases=["short", "long"], requests=5, acceptance_length=6)
    assert not result["changed"]
    assert result["msg"] == (
        f"Would send 5 requests to {engine.url} in each phase (short, long) and judge what the engine counts meanwhile."
    )
    assert engine.paths == []


def test_the_key_is_used_and_never_shown(engine, call):
    engine.key = "s3cret-of-the-server"
    result = call(api_key="s3cret-of-the-server")
    assert result["verdict"] == "pass"
    assert "s3cret" not in json.dumps(result)
    wrong = call(api_key="s3cret-of-another")
    assert "wants another API key" in wrong["msg"]
    assert "s3cret" not in json.dumps(wrong)


def test_prompts_of_a_file(engine, call, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("Grüße!\n\n你好\n", encoding="utf-8")
    assert call(prompts_file=str(path), unique_prefix=False)["requests"] == 2
    assert [body["messages"][0]["content"] for body in engine.asked] == ["Grüße!", "你好"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"url": "localhost:8000"}, "url must look like http://127.0.0.1:8000"),
        ({"position_0": 50}, "position_0 is a fraction from 0 to 1 (0.5 is 50 %), not 50.0"),
        ({"max_drop": 10}, "max_drop is a fraction"),
        ({"requests": 0}, "requests must be more than 0, not 0"),
        ({"concurrency": -1}, "concurrency must be more than 0, not -1"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"prompts": ["Hello", " "]}, "prompts holds an empty prompt"),
        ({"prompts_file": "/nowhere/prompts.txt"}, "prompts_file /nowhere/prompts.txt can't be read: [Errno 2]"),
        ({"baseline": {"acceptance": 3}}, "baseline holds no number acceptance_length"),
        ({"baseline": {"acceptance_length": 3, "phases": {"short": {}}}}, "for itself and for each of its phases"),
        ({"baseline": {"acceptance_length": 3, "phases": ["short"]}}, "for itself and for each of its phases"),
        ({"phases": []}, "phases is empty"),
        ({"phases": ["medium"]}, "medium"),
        ({"prompts": ["a"], "prompts_file": "b"}, "mutually exclusive"),
    ],
)
def test_bad_input_is_named_before_anything_is_sent(engine, call, params, words):
    result = call(**params)
    assert result["failed"]
    assert words in result["msg"]
    assert engine.paths == []


def test_an_empty_or_binary_file_of_prompts(engine, call, tmp_path):
    path = tmp_path / "prompts"
    for content, words in ((b"\n\n", "holds an empty prompt"), (b"\xff\xfe\x00", "can't be read")):
        path.write_bytes(content)
        assert words in call(prompts_file=str(path))["msg"]
    assert engine.paths == []

"""What the judges say of a server of which all is known: nothing where all is well, and each fault by its name."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import examination, judges
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.servers import Server
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine.metrics import Counters, Drafting
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import Scanner
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import log

PAIR = Path(__file__).parents[3] / "playbooks/files/tiny-pair"
RIGHT = {
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 24,
    "use_sliding_window": True,
    "max_window_layers": 3,
}
SERVER = Server(
    pid=os.getpid(),
    argv=["/venv/bin/python", "/venv/bin/vllm", "serve", "/models/target"],
    model="/models/target",
    flags={
        "host": "127.0.0.1",
        "enable-prefix-caching": False,
        "speculative-config": {"method": "dflash", "model": "/d"},
    },
    environment={"VLLM_LOGGING_LEVEL": "INFO"},
    cwd="/",
    user="vllm",
    uptime=600.0,
    parent="pid 1 (systemd)",
    keeper="systemd unit vllm.service",
    unit="vllm.service",
    log="/var/log/vllm.log",
    listens=[8000],
    workers={2: "VLLM::EngineCore"},
    hidden=[],
)
GOOD = Drafting(200, 1400, 1380, (199.0, 198, 198, 197, 197, 196, 195))


@pytest.fixture
def subject(tmp_path):
    """A server with the tiny pair, mended and older than the server."""
    drafter = shutil.copytree(PAIR / "drafter", tmp_path / "drafter")
    config = json.loads((drafter / "config.json").read_text())
    (drafter / "config.json").write_text(json.dumps({**config, **RIGHT}))
    os.utime(drafter / "config.json", (0, time.time() - 3600))
    target = shutil.copytree(PAIR / "target", tmp_path / "target")
    os.utime(target / "config.json", (0, time.time() - 3600))

    def make(server=None, **read) -> Subject:
        known = {
            "unit": {"Restart": "always", "KillMode": "control-group", "Type": "exec"},
            "log": judged(READY % b"(2, 4, 6)"),
            "target": str(target),
            "drafter": str(drafter),
            "version": "0.32.0",
            "counters": Counters(GOOD, 1600.0, 0.0, heard=True),
            "answers": True,
        }
        return Subject(dataclasses.replace(SERVER, **(server or {})), **{**known, **read})

    make.drafter = drafter
    return make


def said(subject: Subject) -> list[tuple[str, str, str]]:
    return [(f.check, f.severity, f.what) for f in judges.judge(subject)]


def flags(**more):
    return {"flags": {**SERVER.flags, **more}}


def test_nothing_is_wrong_with_what_is_right(subject):
    assert said(subject()) == []


def test_a_config_that_was_changed_under_the_server(subject):
    os.utime(subject.drafter / "config.json")
    ((check, severity, what),) = said(subject())
    assert (check, severity) == ("process", "error")
    assert what.startswith("The drafter's config.json was changed 10 min after the server was started")


def test_a_wrong_value_stands_before_what_comes_of_it(subject):
    config = json.loads((subject.drafter / "config.json").read_text())
    config["dflash_config"]["target_layer_ids"] = [1, 3, 9]
    (subject.drafter / "config.json").write_text(json.dumps(config))
    os.utime(subject.drafter / "config.json", (0, 0))
    wired = Counters(Drafting(500, 3500, 4, (4.0, 0, 0, 0, 0, 0, 0)), 504.0, 0.0, heard=True)
    told = said(subject(counters=wired, log=judged(READY % b"(2, 4, 10)")))
    assert [(check, severity) for check, severity, _unused in told] == [("drafter", "error"), ("counters", "error")]
    assert "dflash_config.target_layer_ids is [1, 3, 9]" in told[0][2]
    assert "wired wrongly" in told[1][2]


@pytest.mark.parametrize(
    ("ids", "version", "what", "remedy"),
    [
        ([1, 3, 9], "0.32.0", "target_layer_ids is [1, 3, 9]", "Look up what dflash_config.target_layer_ids is where the drafter was published,"),
        (None, "0.32.0", "target_layer_ids is missing: without them the engine silently takes layers of its own.", "Look up what"),
        ([1, 3, 5], "0.21.0", "layer_types is 3 x sliding_attention: before 0.25 vLLM ignores", "Take a vLLM that can do it"),
    ],
)  # fmt: skip
def test_what_is_to_be_done_about_a_drafter(subject, ids, version, what, remedy):
    config = json.loads((subject.drafter / "config.json").read_text())
    config["dflash_config"].pop("target_layer_ids")
    config["dflash_config"].update({"target_layer_ids": ids} if ids else {})
    (subject.drafter / "config.json").write_text(json.dumps(config))
    os.utime(subject.drafter / "config.json", (0, 0))
    one = subject(version=version, log=None)
    (found,) = [finding for finding in judges.judge(one) if what in finding.what]
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("server", "read", "check", "severity", "words"),
    [
        ({"listens": [8001]}, {}, "process", "warning", "told to listen on port 8000, and does not"),
        ({"workers": {}}, {}, "process", "error", "its engine is gone"),
        ({"flags": {"host": "::1"}}, {}, "drafter", "note", "runs without a drafter"),
        ({}, {"drafter": ""}, "drafter", "error", "The drafter /d is not on this host"),
        (flags(**{"speculative-config": "{method:dflash}"}), {"drafter": ""}, "drafter", "error", "is no dictionary: '{method:dflash}'"),
        ({}, {"drafter": "", "blind": True}, "drafter", "note", "can't be seen by this user"),
        ({"hidden": ["its environment"]}, {"drafter": ""}, "drafter", "note", "can't be seen by this user"),
        ({}, {"unit": {"Restart": "on-failure"}}, "versions", "warning", "ends with exit code 0"),
        (flags(**{"max-num-batched-tokens": 64, "max-num-seqs": 64}), {}, "arguments", "warning", "max-num-batched-tokens is 64"),
        ({"environment": {"VLLM_ENGINE_READY_TIMEOUT_S": "10m"}}, {}, "arguments", "warning", "VLLM_ENGINE_READY_TIMEOUT_S is '10m'"),
        ({"uptime": 2000.0}, {"answers": False, "silence": "timed out"}, "process", "error", "gives no answer"),
        ({}, {"restarts": 3}, "log", "warning", "started again 3 times by itself"),
        ({}, {"counters": Counters(None, 50.0, 0.0, heard=True)}, "counters", "error", "counts no drafts"),
        (
            {}, {"counters": Counters(Drafting(500, 3500, 100, (100.0, 0, 0)), 600.0, 0.0, heard=True)},
            "counters", "error", "its first token is accepted and those after it never",
        ),
        ({"argv": [*SERVER.argv, "--api-key", "x"]}, {}, "safety", "warning", "--api-key can be read by all users"),
        ({"argv": [*SERVER.argv, "--api-k=x"]}, {}, "safety", "warning", "--api-key can be read by all users"),
        ({}, {"log": None}, "log", "note", "Nothing can be read of its log."),
        (flags(host="0.0.0.0"), {}, "safety", "warning", "listens on 0.0.0.0 without a key"),
        ({"user": "root"}, {}, "safety", "note", "runs as root"),
        (flags(**{"trust-remote-code": True}), {}, "safety", "note", "whatever Python code comes with the model"),
    ],
)  # fmt: skip
def test_each_fault_alone(subject, server, read, check, severity, words):
    told = said(subject(server, **read))
    assert [(c, s) for c, s, _what in told] == [(check, severity)]
    assert words in told[0][2]


def test_a_key_in_the_environment_is_enough(subject):
    assert said(subject({**flags(host="0.0.0.0"), "environment": {"VLLM_API_KEY": "x"}})) == []
    assert said(subject({**flags(host="0.0.0.0"), "environment": None})) == [], "what can't be seen is not guessed"


@pytest.mark.parametrize(("mode", "open_"), [(0o644, True), (0o600, False)])
def test_a_token_that_others_can_read(subject, tmp_path, mode, open_):
    token = tmp_path / ".cache/huggingface/token"
    token.parent.mkdir(parents=True)
    token.write_text("hf_x")
    token.chmod(mode)
    told = said(subject({"environment": {"HOME": str(tmp_path)}}))
    assert bool(told) is open_
    assert all(f"{token} holds a secret" in what for _check, _severity, what in told)


@pytest.mark.parametrize(
    ("text", "open_"), [("model: m\napi-key: x\n", True), ("model: m\nhf_token: x\n", True), ("port: 1\n", False)]
)
def test_a_config_file_that_others_can_read(subject, tmp_path, text, open_):
    (tmp_path / "serve.yml").write_text(text)
    (tmp_path / "serve.yml").chmod(0o644)
    told = said(subject({**flags(config="serve.yml"), "cwd": str(tmp_path)}))
    assert [what for _check, severity, what in told if severity == "warning"] == (
        [f"{tmp_path}/serve.yml holds a secret, and all users of the host can read it."] if open_ else []
    )


def test_a_token_that_is_no_file_holds_nobody_up(subject, tmp_path):
    """Whoever opens a pipe waits until somebody writes."""
    token = tmp_path / ".cache/huggingface/token"
    token.parent.mkdir(parents=True)
    os.mkfifo(token, 0o644)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(10)
    try:
        assert said(subject({"environment": {"HOME": str(tmp_path)}})) == []
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("at_files", "The files of pid {pid} can't be judged: ZeroDivisionError: division by zero."),
        ("at_network", "The network of pid {pid} can't be judged: ZeroDivisionError: division by zero."),
    ],
)
def test_what_can_not_be_looked_at_costs_nothing_else(monkeypatch, where, words):
    """A double for faults that nobody knows yet: those that are known are mended."""
    monkeypatch.setattr(examination.namespaces, where, lambda pid, look, patience=None: 1 / 0)
    server = dataclasses.replace(SERVER, unit="", log="", flags={**SERVER.flags, "trust-remote-code": True})
    told = examination.examine(server)
    said = [(f["check"], f["what"]) for f in told["findings"]]
    assert ("sight", words.format(pid=SERVER.pid)) in said
    assert ("safety", "It runs whatever Python code comes with the model.") in said
    drafter = [what for check, what in said if check == "drafter"]
    assert drafter == [
        "The drafter /d is not on this host where the server looks for it."
        if where == "at_network"
        else "Where the drafter /d lies can't be seen by this user."
    ]


def test_what_one_judge_can_not_cope_with_costs_no_other_its_word(subject, monkeypatch):
    monkeypatch.setattr(judges.judges_setup.asking, "judge", lambda params, mended: 1 / 0)
    told = said(subject(flags(**{"trust-remote-code": True})))
    assert told == [
        ("sight", "warning", f"The drafter of pid {SERVER.pid} can't be judged: ZeroDivisionError: division by zero."),
        ("safety", "note", "It runs whatever Python code comes with the model."),
    ]


def test_what_only_looks_like_a_server_is_a_finding_of_the_host():
    (found,) = examination.of_the_host([], ["pid 7, of mallory (ValueError: x)"])
    assert (found.check, found.severity) == ("sight", "warning")
    assert found.what == "What looks like a server can't be read: pid 7, of mallory (ValueError: x)."


def judged(data: bytes) -> Judge:
    judge = Judge(Profile())
    Scanner(judge).feed(data, 0.0)
    return judge


READY = b"(EngineCore pid=9) INFO 01-01 00:00:00 [x.py:1] Using auxiliary layers from speculative config: %s\nINFO:     Application startup complete.\n"


@pytest.mark.parametrize(("layers", "words"), [(b"(2, 4, 6)", ""), (b"(1, 3, 5)", "hands the layers [1, 3, 5]")])
def test_what_the_engine_logged_is_held_against_the_config(subject, layers, words):
    told = said(subject(log=judged(READY % layers)))
    assert bool(told) is bool(words)
    assert not words or words in told[0][2]


def test_a_launch_that_failed_tells_its_cause(subject):
    told = said(subject(log=judged(log("logs/kv-memory")), answers=False, silence="refused", counters=Counters()))
    assert [(check, severity) for check, severity, _unused in told] == [("log", "error")]
    assert told[0][2].startswith("Its last launch has failed")

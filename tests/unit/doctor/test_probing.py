"""A probe is for who asks for it, is bounded, and shows no key. The server is the double of the probe's own tests."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges_run, probing
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.probing import Asked, probe
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine.metrics import Counters
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK
from ansible_collections.llmops.vllm.tests.unit.doctor.test_judges import SERVER
from ansible_collections.llmops.vllm.tests.unit.engine import conftest

engine = conftest.engine
KEY = "canary,5f1d0c"


def subject(double, environment=None, hidden=False, **flags: object) -> Subject:
    port = int(double.url.rpartition(":")[2])
    told = {**SERVER.flags, "port": port, **flags}
    server = dataclasses.replace(
        SERVER, flags=told, listens=[port], environment=None if hidden else environment or {},
        started=processes.start_ticks(SERVER.pid),
    )  # fmt: skip
    return Subject(server, {}, None, answers=True)


def said(one: Subject, asked: Asked) -> list[tuple[str, str]]:
    one.probed = probe(one, asked)
    assert KEY not in json.dumps(one.shown())
    return [(finding.severity, finding.what) for finding in judges_run.probe(one)]


def test_nobody_is_probed_unasked(engine):
    one = subject(engine)
    one.hear(one.ask(known_names=True))
    assert list(judges_run.probe(one)) == []
    assert engine.paths == ["/metrics", "/version"]


def test_what_is_well(engine):
    one = subject(engine)
    engine.accepted = 7
    assert said(one, Asked(requests=3)) == []
    assert (len(engine.asked), one.probed["acceptance_length"], one.probed["requests"]) == (3, 8.0, 3)
    assert {body["max_tokens"] for body in engine.asked} == {probing.TOKENS}


@pytest.mark.parametrize(
    ("fault", "severity", "words"),
    [
        ({"accepted": 0}, "error", "The drafter is wired wrongly"),
        ({"speculates": False}, "error", "Asked for tokens, it fails: the server does not speculate"),
        ({"fault": lambda handler, n: handler.reply(500, {"error": "dead"}) or True}, "error", "Asked for tokens, it fails: the engine failed"),
        ({"foreign": 1000}, "note", "The probe says nothing: the probe can't judge: most of what was counted is other traffic"),
        ({"key": "x"}, "error", "Asked for tokens, it fails: the server is alive but wants another API key"),
    ],
)  # fmt: skip
def test_what_is_not(engine, fault, severity, words):
    vars(engine).update(fault)
    ((severe, what),) = said(subject(engine, **{"api-key": "yyyy"}), Asked())
    assert severe == severity
    assert what.startswith(words)


def test_its_key_is_used_and_not_shown(engine):
    engine.key, engine.accepted = KEY, 7
    assert said(subject(engine, {"VLLM_API_KEY": KEY}), Asked()) == []
    assert said(subject(engine, **{"api-key": [KEY, "other"]}), Asked()) == []
    assert said(subject(engine, {"VLLM_API_KEY": "other"}, **{"api-key": KEY}), Asked()) == []


def test_a_server_that_sends_the_key_back_makes_it_known_to_nobody(engine):
    engine.fault = lambda handler, n: handler.reply(500, {"error": handler.headers["Authorization"]}) or True
    one = subject(engine, {"VLLM_API_KEY": KEY})
    ((severity, _what),) = said(one, Asked())
    assert severity == "error"
    assert MASK in one.probed["evidence"]


AWKWARD = ("canary,5f1d0c", "can'ary-5f1d0c", 'can"ary-5f1d0c', "can\\ary'5f\"1d0c")


@pytest.mark.parametrize("key", AWKWARD)
@pytest.mark.parametrize("before", [0, 288])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_key_is_hidden_however_it_is_cut_or_quoted(engine, key, before, wrapped):
    """What is told of an answer is cut after 300 characters, and what is no list of models is quoted."""
    told = "." * before + key
    one = subject(engine, {"VLLM_API_KEY": key})
    engine.listing = json.dumps({"": told}) if wrapped else told
    listed = probe(one, Asked())
    engine.listing = None
    engine.fault = lambda handler, n: handler.reply(500, {"error": {"message": told}} if wrapped else told) or True
    refused = probe(one, Asked())

    def broken(handler, n):
        handler.begin()
        handler.event({"error": {"message": told}})
        return True

    engine.fault = broken
    streamed = probe(one, Asked())
    for found in (listed, refused, streamed):
        assert found["verdict"] == "unreachable"
        assert "can" not in found["evidence"]
        assert "5f1d0c" not in found["evidence"]
        assert MASK[:6] in found["evidence"]


def test_a_key_that_is_cut_out_of_no_name_of_a_model(engine):
    """A short one may be in any of them, and the server is asked for its model by that name."""
    engine.key, engine.accepted = "t", 7
    assert said(subject(engine, {"VLLM_API_KEY": "t"}), Asked(requests=3)) == []
    assert engine.asked[0]["model"] == "tiny"


@pytest.fixture
def idle():
    """A process that listens on nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def sight(one: Subject) -> list[str]:
    return [finding.what for finding in one.unseen if finding.check == "sight"]


def test_no_key_is_sent_to_another_that_holds_the_port(engine, idle):
    one = subject(engine, {"VLLM_API_KEY": KEY})
    one.server = dataclasses.replace(one.server, pid=idle, listens=[], workers={}, started=processes.start_ticks(idle))
    why = f"none of its processes that can be seen listens on port {one.server.port}"
    assert said(one, Asked()) == [("note", f"The probe says nothing: {why}.")]
    assert sight(one) == [f"Pid {idle} was not probed: {why}."]
    assert engine.paths == []


def test_no_key_is_sent_to_who_has_taken_the_port_since(engine, idle):
    """And not to who has the pid of what was a worker."""
    one = subject(engine, {"VLLM_API_KEY": KEY})
    workers = {os.getpid(): "VLLM::EngineCore"}
    one.server = dataclasses.replace(one.server, pid=idle, workers=workers, started=processes.start_ticks(idle))
    assert probe(one, Asked())["verdict"] == "not probed"
    assert engine.paths == []


@pytest.mark.parametrize("started", [None, 1])
def test_no_key_is_sent_to_another_process_of_the_same_number(engine, started):
    one = subject(engine, {"VLLM_API_KEY": KEY})
    one.server = dataclasses.replace(one.server, started=started)
    assert probe(one, Asked())["verdict"] == "not probed"
    assert "another process has its pid" in sight(one)[0]
    assert engine.paths == []


def test_no_key_is_sent_where_the_port_can_not_be_seen(engine, idle, monkeypatch):
    one = subject(engine, {"VLLM_API_KEY": KEY})

    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(probing.os, "listdir", refused)
    assert probe(one, Asked())["verdict"] == "not probed"
    assert sight(one)[0].endswith("can't be seen (Permission denied).")
    assert one.unseen[0].remedy == probing.judges.ROOT
    assert engine.paths == []


def test_a_worker_may_hold_the_port_and_what_counts_is_now():
    """When the server was found it may have been starting."""
    worker = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}], check=False)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        told = {**SERVER.flags, "port": int(process.stdout.readline())}
        started = processes.start_ticks(process.pid)
        server = dataclasses.replace(SERVER, pid=process.pid, flags=told, listens=[], workers={}, started=started)
        stranger = probing._stranger(Subject(server, {}, None, answers=True))
        process.stdin.close()  # ends the worker, and with it the server
    assert stranger == ("", "")


def test_a_key_that_can_not_be_read_is_no_fault_of_the_server(engine):
    engine.key = KEY
    assert said(subject(engine, hidden=True), Asked()) == [
        ("note", "The probe says nothing: it wants a key, and none can be read.")
    ]


@pytest.mark.parametrize(
    ("why", "server", "read"),
    [
        ("it has no address that could be asked", {"flags": {"headless": True}}, {}),
        ("it has no address that could be asked", {"flags": {"uds": "/run/x"}}, {}),
        ("what answers on port 8000 is another process", {"listens": [8001]}, {}),
        ("it sleeps, and a request could end it", {}, {"counters": Counters(asleep=True)}),
        ("it gives no answer", {}, {"answers": False}),
    ],
)
def test_who_is_not_probed(why, server, read):
    one = Subject(dataclasses.replace(SERVER, **server), {}, None, **{"answers": True, **read})
    assert said(one, Asked()) == [("note", f"The probe says nothing: {why}.")]


def test_it_ends_in_time(engine):
    def hang(handler, n):
        engine.ended.wait(60)
        return True

    engine.fault = hang
    ((severity, what),) = said(subject(engine), Asked(seconds=1))
    assert severity == "error"
    assert "not over within 1 s" in what


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(), ""),
        (Asked(32, 600, ("Recite",)), ""),
        (Asked(33), "probe_requests is 33: it must be from 1 to 32"),
        (Asked(0), "probe_requests is 0"),
        (Asked(seconds=601), "probe_timeout is 601"),
        (Asked(prompts=["a", " "]), "probe_prompts holds an empty prompt."),
    ],
)
def test_a_probe_is_a_small_load(asked, words):
    assert asked.refused().startswith(words)
    assert bool(asked.refused()) == bool(words)

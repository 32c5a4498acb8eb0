"""A probe is for who asks for it, is bounded, and shows no key. The server is the double of the probe's own tests."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges_run, probing
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.probing import Asked, probe
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine.metrics import Counters
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK
from ansible_collections.llmops.vllm.tests.unit.doctor.test_judges import SERVER
from ansible_collections.llmops.vllm.tests.unit.engine import conftest

engine = conftest.engine
KEY = "canary,5f1d0c"


def subject(double, environment=None, hidden=False, **flags: object) -> Subject:
    port = int(double.url.rpartition(":")[2])
    told = {**SERVER.flags, "port": port, **flags}
    server = dataclasses.replace(SERVER, flags=told, listens=[port], environment=None if hidden else environment or {})
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

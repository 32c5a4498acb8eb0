"""The course of a probe: what is asked in which phase, and what is counted."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import probe, prompts
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import NoAnswerError, Server

ASKED = ("Recite chapter 0", "Recite chapter 1", "Recite chapter 2")
LOG_LINE = (
    "(APIServer pid=1) INFO 11-30 06:41:58 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 5.00, Accepted "
    "throughput: 28.37 tokens/s, Drafted throughput: 49.65 tokens/s, Accepted: 40 tokens, Drafted: 70 tokens, Per-position "
    "acceptance rate: 1.000, 1.000, 1.000, 1.000, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 57.1%\n"
)


def measure(engine, **options):
    options = {"prompts": ASKED, "phases": ["short"], "requests": 3, "timeout": 20, **options}
    return probe.measure(Server(engine.url), probe.Plan(**options))


def texts(engine):
    return [body["messages"][0]["content"] for body in engine.asked]


def failure(engine, **options):
    with pytest.raises(NoAnswerError) as caught:
        measure(engine, **options)
    return caught.value


def test_figures(engine):
    m = measure(engine)
    assert (m.model, m.version, m.source, list(m.phases)) == ("tiny", "0.32.0", "/metrics", ["short"])
    figures = m.whole.figures()
    assert figures.pop("tokens_per_second") > 0
    assert figures.pop("time_to_first_token") > 0
    assert figures == {
        "acceptance_length": 5.0,
        "acceptance_rate": 0.5714,
        "position_0": 1.0,
        "per_position": [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        "drafts": 30,
        "drafted": 210,
        "accepted": 120,
        "tokens": 150,
        "requests": 3,
        "prompt_tokens": sum(len(t) // 4 for t in texts(engine)),
        "cache_hits": 0,
    }


def test_what_was_counted_before_does_not_count(engine):
    engine.drafts, engine.generated = 10**6, 10**7
    assert measure(engine).whole.figures()["drafts"] == 30


def test_several_engines_are_one_server(engine):
    engine.engines = 2
    assert measure(engine).whole.figures()["drafts"] == 30


def test_counts_that_come_late_are_waited_for(engine):
    """Two readings, the one that looks for counters and the mark, see nothing yet; the next two still don't."""
    engine.late_counts = 4
    assert measure(engine).whole.figures()["drafts"] == 30


def test_each_request_is_greedy_and_bounded(engine):
    measure(engine, max_tokens=33, chat_template_kwargs={"enable_thinking": False})
    for body in engine.asked:
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 33, "tiny")
        assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_prefixes_are_unique_and_new_each_time(engine):
    measure(engine)
    measure(engine)
    assert all(text.endswith(asked) for text, asked in zip(texts(engine), ASKED * 2))
    assert len({text[:16] for text in texts(engine)}) == 6


def test_prompts_go_verbatim_where_that_is_wanted(engine):
    measure(engine, unique_prefix=False, phases=["short", "repeated"])
    assert texts(engine) == list(ASKED * 3)
    assert [body["max_tokens"] for body in engine.asked] == [256] * 3 + [1] * 3 + [256] * 3


def test_prompts_are_taken_in_turn(engine):
    measure(engine, requests=7, unique_prefix=False)
    assert texts(engine) == [ASKED[n % 3] for n in range(7)]


def test_long_fits_the_model(engine):
    engine.max_model_len = 8192
    m = measure(engine, phases=["short", "long"], long_tokens=4000)
    lengths = [len(text) // 4 for text in texts(engine)]
    assert all(3900 < n < 4100 for n in lengths[3:])
    assert m.phases["long"].prompt_tokens == sum(lengths[3:])
    engine.max_model_len = 1000
    engine.asked.clear()
    measure(engine, phases=["long"], long_tokens=4000)
    assert all(400 < len(text) // 4 < 1000 - 256 for text in texts(engine))


def test_long_without_room_is_short(engine):
    engine.max_model_len = 200
    measure(engine, phases=["long"])
    assert all(len(text) < 60 for text in texts(engine))


def test_repeated_measures_the_second_time(engine):
    engine.cached, engine.max_model_len = 16, 4096
    m = measure(engine, phases=["repeated"], long_tokens=4000)
    first, second = texts(engine)[:3], texts(engine)[3:]
    assert first == second
    assert len({text[:3900] for text in first}) == 1, "one beginning of 1000 tokens for all"
    assert all(1000 < len(text) // 4 < 1050 for text in first)
    assert m.whole.figures()["drafts"] == 30
    assert m.whole.figures()["cache_hits"] == 48


def test_phases_add_up(engine):
    m = measure(engine, phases=["short", "repeated"])
    assert [p.figures()["drafts"] for p in m.phases.values()] == [30, 30]
    assert (m.whole.figures()["drafts"], m.whole.figures()["requests"]) == (60, 6)


def test_concurrency_is_bounded(engine):
    """Both answers wait for each other, so this ends only if two are under way; a third would break the barrier's count."""
    barrier, under_way, most = threading.Barrier(2, timeout=10), [], []

    def together(handler, n):
        under_way.append(n)
        most.append(len(under_way))
        barrier.wait()
        under_way.remove(n)
        return False

    engine.fault = together
    measure(engine, requests=6, concurrency=2)
    assert max(most) == 2


def test_no_speculation(engine):
    engine.speculates = False
    m = measure(engine)
    assert m.whole.counted.drafting is None
    assert m.whole.counted.generated == 150


def test_other_traffic(engine):
    engine.foreign = 50
    assert measure(engine).whole.foreign == 0.5


def test_an_engine_that_hides_its_counters(engine):
    engine.hidden = True
    m = measure(engine)
    assert not m.whole.counted.heard
    assert m.source == "/metrics (it shows no counter of vLLM; no log was named)"


def test_the_log_serves_where_counters_are_hidden(engine, tmp_path):
    log = tmp_path / "server.log"
    log.write_text(LOG_LINE * 5)
    engine.hidden, engine.log, engine.log_line = True, str(log), LOG_LINE
    m = measure(engine, log=str(log))
    assert m.source == f"the lines that {log} gained"
    assert m.whole.figures()["drafts"] == 30
    assert m.whole.figures()["acceptance_length"] == 5.0
    assert m.whole.counted.generated == 150
    assert m.whole.figures()["cache_hits"] is None


def test_counters_go_before_the_log(engine, tmp_path):
    assert measure(engine, log=str(tmp_path / "none.log")).source == "/metrics"


def test_a_silent_log_is_not_waited_for_beyond_the_probe(engine, tmp_path):
    engine.hidden = True
    m = measure(engine, log=str(tmp_path / "none.log"), timeout=1)
    assert not m.whole.counted.heard


def test_a_log_that_is_none(engine, tmp_path):
    engine.hidden = True
    assert str(tmp_path) in failure(engine, log=str(tmp_path)).evidence


def test_a_name_that_is_not_served(engine):
    engine.models = ["tiny", "adapter"]
    e = failure(engine, model="/models/tiny")
    assert (e.cause, e.evidence) == (
        "The server does not serve a model named '/models/tiny'",
        "/v1/models lists 'tiny', 'adapter'",
    )
    assert engine.asked == []
    measure(engine, model="adapter")
    assert {body["model"] for body in engine.asked} == {"adapter"}


def test_a_sleeping_engine_is_not_asked(engine):
    engine.asleep = True
    e = failure(engine)
    assert (e.cause, e.evidence) == ("The engine sleeps", "It says so itself, while /health says 200")
    assert engine.asked == []


def test_a_restart_in_the_middle(engine):
    def restarts(handler, n):
        if n == 2:
            engine.drafts = engine.generated = 0
            engine.started += 60
        return False

    engine.fault = restarts
    e = failure(engine)
    assert e.cause == "The server was restarted during the probe"
    assert e.evidence == "/metrics names another start time than before"


def test_a_failure_says_how_far_it_came(engine):
    engine.fault = lambda handler, n: n == 3 and (handler.reply(500, {"error": {"message": "EngineCore died"}}) or True)
    e = failure(engine)
    assert e.evidence.endswith("EngineCore died; /health says 200; 2 of 3 requests of phase short were answered before")


def test_no_more_is_sent_after_a_failure(engine):
    engine.fault = lambda handler, n: handler.reply(500, "no") or True
    failure(engine, requests=50)
    assert len(engine.asked) < 5


def test_the_probe_ends_at_its_own_deadline(engine):
    engine.fault = lambda handler, n: n == 2 and engine.ended.wait()
    e = failure(engine, timeout=1, request_timeout=60)
    assert e.cause.startswith("The probe was not over within 1 s. The engine hangs")
    assert "1 of 3 requests of phase short" in e.evidence
    assert "raise timeout" in e.remedy


def test_a_request_ends_at_its_deadline(engine):
    engine.fault = lambda handler, n: engine.ended.wait()
    e = failure(engine, timeout=60, request_timeout=0.3, concurrency=3)
    assert e.cause.startswith("The engine hangs")
    assert "0 of 3 requests" in e.evidence


def test_lines_are_prompts():
    text = '\nWrite a poem.\n  {"prompt": "two\\nlines", "id": 1}\n"quoted"\n\n{not json\n12\n{"id": 2}\n'
    assert prompts.from_lines(text) == ["Write a poem.", "two\nlines", "quoted", "{not json", "12", '{"id": 2}']


def test_the_built_in_prompts_differ():
    assert len(set(prompts.BUILT_IN)) == 12


def test_the_filler_never_repeats_a_block():
    text = prompts.filler(20000)
    assert len(text) == 20000
    blocks = [text[n : n + 200] for n in range(0, 20000, 200)]
    assert len(set(blocks)) == len(blocks)

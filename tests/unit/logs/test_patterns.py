"""The patterns are data: every one of them is held to its samples, and to saying nothing of lines that are not its own."""

from __future__ import annotations

import re

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs import causes, patterns, stages, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import parse
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern, literal
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Progress
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import Said, judge

TABLES = {
    name: table if isinstance(table, tuple) else (table,)
    for name, table in vars(patterns).items()
    if isinstance(table, Pattern) or (isinstance(table, tuple) and table and isinstance(table[0], Pattern))
}
SAMPLES = [(t, p, s) for t, table in TABLES.items() for p in table for s in p.samples]
NAMES = [f"{t}-{p.name}-{p.samples.index(s)}" for t, p, s in SAMPLES]
LOGGED = "(EngineCore pid=7) ERROR 11-30 06:49:31 [core.py:1] "


def said(text: str) -> Said:
    return judge([text.encode() + b"\n"])


def test_the_tables_are_all_here():
    assert set(TABLES) == {
        "READY", "LAUNCH", "STOPPING", "PROCESS", "FATAL", "UNDERSTATED", "TROUBLE", "WRAPPERS", "CAUSES", "BENIGN", "IDLE",
    }  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_names_are_unique_and_everything_has_a_kind_and_a_sample(table):
    names = [p.name for p in TABLES[table]]
    assert len(set(names)) == len(names)
    assert all(p.kind and p.samples for p in TABLES[table])


@pytest.mark.parametrize(("table", "pattern", "sample"), SAMPLES, ids=NAMES)
def test_every_pattern_finds_its_samples(table, pattern, sample):
    assert pattern.regex.search(sample)


@pytest.mark.parametrize("pattern", patterns.CAUSES, ids=lambda p: p.name)
def test_a_cause_explains_its_samples_before_any_other_does_and_has_a_remedy(pattern):
    assert [causes.explain(s).name for s in pattern.samples] == [pattern.name] * len(pattern.samples)
    assert len(pattern.hint) > 40


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "READY"])
def test_ready(sample):
    assert said(f"INFO:     {sample}").ready


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "STOPPING"])
def test_stopping(sample):
    assert said(f"INFO:     {sample}").stopping


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "FATAL"])
def test_fatal_at_error_or_without_a_level_and_never_below(sample):
    assert said(LOGGED + sample).failed
    assert said(sample).failed
    assert not said("(EngineCore pid=7) WARNING 11-30 06:49:31 [core.py:1] " + sample).failed
    assert not said(
        f"(APIServer pid=7) INFO 11-30 06:49:31 [api_utils.py:286] non-default args: {{'x': '{sample}'}}"
    ).failed


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "UNDERSTATED"])
def test_fatal_though_understated(sample):
    assert said("(APIServer pid=7) WARNING 11-30 06:49:31 [core.py:1] " + sample).failed


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "BENIGN"])
def test_benign(sample):
    assert said(LOGGED + sample).cause is None


@pytest.mark.parametrize("sample", [s for t, _p, s in SAMPLES if t == "WRAPPERS"])
def test_a_wrapper_is_no_cause_as_long_as_there_is_another(sample):
    def record(process: str, exception: str) -> bytes:
        head = f"({process} pid=7) ERROR 11-30 06:49:31 [core.py:1] "
        return f"{head}EngineCore failed to start.\n{head}{tracebacks.BEGIN}\n{head}{exception}\n".encode()

    wrapper, real = record("EngineCore", sample), record("Worker", "ValueError: the real one")
    assert judge([wrapper, real]).cause.text == "ValueError: the real one"
    assert judge([wrapper]).cause.text == sample


# An interrupt ends a traceback, systemd's words are the last of a log, and the rest is written at ERROR.
LATE = [s for t, p, s in SAMPLES if t in ("READY", "LAUNCH", "STOPPING", "UNDERSTATED")]
LATE = [s for s in LATE if not s.startswith(("KeyboardInterrupt", "vllm.service"))]


@pytest.mark.parametrize("sample", LATE)
def test_what_matters_late_holds_an_anchor(sample):
    assert any(anchor.decode() in f"INFO:     {sample}" for anchor in Profile().anchors(ready=False))


@pytest.mark.parametrize("stage", stages.STAGES, ids=lambda s: s.name)
def test_every_stage_finds_its_sample(stage):
    progress = Progress()
    progress.see(parse(1, stage.sample.encode()), 0.0)
    assert progress.stage == stage.name


@pytest.mark.parametrize("fact", stages.FACTS, ids=lambda f: f.name)
def test_every_fact_reads_its_sample(fact):
    match = fact.regex.match(fact.sample)
    assert match and fact.convert(match[1]) == fact.value
    progress = Progress()
    progress.see(parse(1, fact.sample.encode()), 0.0)
    assert progress.facts[fact.name] == fact.value


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("^BUILD COMPLETE", "BUILD COMPLETE"),
        (r"^BUILD FAILED: (.*)", "BUILD FAILED: "),
        (r"listening on port \d+", "listening on port "),
        (r"ready\.$", "ready."),
        (r"colou?r", "colo"),
        (r"abcdx*efgh", "abcd"),
        (r"[abc]defgh", "defgh"),
        (r"[]abc]defgh", "defgh"),
        (r"x{2,3}defgh", "defgh"),
        (r"(optional)?defgh", "defgh"),
        (r"one|other", ""),
        (r"(?i)ready", ""),
        (r"a.b.c", ""),
        (r"größe", ""),
        (r"\bword\b", "word"),
        (r"(a(bcde)f)ghij", "ghij"),
    ],
)
def test_the_word_that_a_pattern_takes_for_granted(pattern, word):
    assert literal(pattern) == word
    re.compile(pattern)

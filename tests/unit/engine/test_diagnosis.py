"""Verdicts and words. The rows named tiny are measured: vLLM 0.32.0, a memorising target and its drafter of 7 tokens,
eight prompts, one value of the drafter's config changed. The others are the figures of public reports."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import diagnosis, metrics, probe
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import Answer
from ansible_collections.llmops.vllm.plugins.module_utils._engine.verdict import Wanted, judge, unreachable

RIGHT = (129, 129, 129, 128, 127, 126, 125)
MASK_4 = (147, 32, 4, 0, 0, 0, 0)
SHIFTED = (192, 150, 125, 95, 73, 52, 37)


def phase(drafts, accepted_at, tokens=1017, *, prompt=31, hits=0, counted=None, thinking=False):
    answers = [Answer(prompt, tokens // 8 + (n < tokens % 8), 0.05, thinking) for n in range(8)]
    drafting = None
    if drafts is not None:
        drafting = metrics.Drafting(drafts, drafts * len(accepted_at), sum(accepted_at), tuple(accepted_at))
    return probe.Phase(answers, 10.0, metrics.Counters(drafting, tokens if counted is None else counted, hits, True))


def measured(short=None, version="0.32.0", source="/metrics", **phases):
    phases = {**({"short": short} if short else {}), **phases}
    return probe.Measurement("tiny", version, source, phases)


def scaled(rates, drafts=1000):
    return drafts, [r * drafts for r in rates]


LIMITS = Wanted(acceptance_length=3.0, position_0=0.5)


def test_right_passes():
    verdict = judge(measured(phase(129, RIGHT)), LIMITS)
    assert verdict.verdict == "pass"
    assert verdict.diagnosis == "Acceptance length 7.92, as wanted."
    assert verdict.message == (
        "Acceptance length 7.92, as wanted.\n"
        "Evidence: 893 of 903 drafted tokens accepted (98.9%) in 129 drafts; by position 1.000 1.000 1.000 0.992 0.985 "
        "0.977 0.969; 8 requests, 248 prompt tokens (0 from the prefix cache); 1017 tokens received, 101.7 a second."
    )


def test_a_failure_names_figures_cause_and_remedy():
    verdict = judge(measured(phase(827, MASK_4)), LIMITS)
    assert verdict.verdict == "fail"
    lines = verdict.message.splitlines()
    assert lines[0] == (
        "The drafter fails: acceptance length 1.22, wanted at least 3.00; position 0 17.8%, wanted at least 50.0%."
    )
    assert lines[1].startswith(
        "Evidence: 183 of 5789 drafted tokens accepted (3.2%) in 827 drafts; by position 0.178 0.039 "
    )
    assert lines[2].startswith("Likely cause: The drafter's config.json does not fit its weights")
    assert lines[3].startswith("Remedy: Check the drafter's config.json")


UNSPECIFIC = "a wrong mask_token_id, target_layer_ids, layer_types or sliding_window"
WIRING = "wired wrongly, for not even the first drafted token is accepted"
FIRST_ONLY = "its first token is accepted and those after it never"


@pytest.mark.parametrize(
    ("drafts", "accepted_at", "words"),
    [
        pytest.param(827, MASK_4, UNSPECIFIC, id="tiny, mask_token_id 4"),
        pytest.param(889, (109, 11, 1, 0, 0, 0, 0), UNSPECIFIC, id="tiny, mask_token_id 0"),
        pytest.param(945, (59, 4, 1, 0, 0, 0, 0), UNSPECIFIC, id="tiny, target_layer_ids 0 1 2"),
        pytest.param(890, (85, 21, 7, 3, 3, 0, 0), UNSPECIFIC, id="tiny, all layers full"),
        pytest.param(882, (86, 25, 8, 5, 3, 0, 0), UNSPECIFIC, id="tiny, sliding_window 4096"),
        pytest.param(984, (26, 0, 0, 0, 0, 0, 0), UNSPECIFIC, id="tiny, sliding_window 8"),
        pytest.param(996, (13, 0, 0, 0, 0, 0, 0), WIRING, id="tiny, all wrong"),
        pytest.param(296, SHIFTED, "alive but weak. target_layer_ids off by one", id="tiny, target_layer_ids 2 4 6"),
        pytest.param(322, (211, 149, 108, 82, 65, 50, 35), "alive but weak", id="tiny, target_layer_ids missing"),
        pytest.param(1000, (0,) * 15, WIRING, id="a draft head of zeros, or a wrong KV layout"),
        pytest.param(1000, (207, *(0,) * 14), FIRST_ONLY, id="trained and served with other blocks"),
        pytest.param(*scaled([0.60, 0.385, 0.215, 0.108, 0.062, *[0.0] * 10]), "breaks off after 5 tokens", id="cliff"),
        pytest.param(*scaled([0.8, 0.7, 0.62, 0.01, 0.0, 0.0, 0.0]), "breaks off after 3 tokens", id="steep cliff"),
        pytest.param(*scaled([0.822, 0.66, 0.5, 0.36, 0.26, 0.14, 0.1]), "alive but weak", id="a sound drafter"),
    ],
)
def test_the_shape_of_the_positions(drafts, accepted_at, words):
    verdict = judge(measured(phase(drafts, accepted_at)), Wanted(acceptance_length=9))
    assert verdict.verdict == "fail"
    assert words in verdict.message


def test_a_cliff_takes_enough_drafts():
    few = phase(*scaled([0.60, 0.385, 0.215, 0.108, 0.062, *[0.0] * 10], drafts=100))
    assert "breaks off" not in diagnosis.read(measured(few)).cause


def test_prefix_cache():
    """vllm-project/vllm#47930: 20 % on unique prompts, 0.5 % on shared prefixes."""
    short, repeated = phase(500, (400, 300, 100, 50, 20, 5, 1)), phase(980, (30, 4, 0, 0, 0, 0, 0), hits=6000)
    verdict = judge(measured(short, repeated=repeated), Wanted(acceptance_length=2.0))
    assert verdict.verdict == "fail"
    assert "acceptance length 1.03 in phase repeated, wanted at least 2.00" in verdict.says
    assert "prefix caching skips" in verdict.diagnosis
    assert "--no-enable-prefix-caching" in verdict.diagnosis
    assert "\nEvidence: in phase short 876 of 3500" in verdict.message
    assert "\n  in phase repeated 34 of 6860" in verdict.message


def test_prefix_cache_is_not_blamed_without_a_hit():
    short, repeated = phase(500, (400, 300, 100, 50, 20, 5, 1)), phase(980, (30, 4, 0, 0, 0, 0, 0))
    verdict = judge(measured(short, repeated=repeated), Wanted(acceptance_length=2.0))
    assert "prefix" not in verdict.pattern.cause
    assert "phase repeated got nothing from the prefix cache" in verdict.evidence
    unknown = dataclasses.replace(repeated, counted=dataclasses.replace(repeated.counted, cache_hits=None))
    assert "prefix caching" in diagnosis.read(measured(short, repeated=unknown)).cause


def test_window():
    short = phase(500, (400, 300, 100, 50, 20, 5, 1), tokens=2048, prompt=60)
    long = phase(980, (30, 4, 0, 0, 0, 0, 0), tokens=2048, prompt=4200)
    cause = diagnosis.read(measured(short, long=long)).cause
    assert "lost somewhere between 316 and 4456 tokens of context" in cause


def test_window_is_not_blamed_where_nothing_was_long():
    short = phase(500, (400, 300, 100, 50, 20, 5, 1), prompt=60)
    long = phase(980, (30, 4, 0, 0, 0, 0, 0), prompt=90)
    assert "window" not in diagnosis.read(measured(short, long=long)).cause


def test_everything_low_is_no_matter_of_phases():
    low = phase(889, (109, 11, 1, 0, 0, 0, 0), hits=100)
    long = phase(980, (26, 0, 0, 0, 0, 0, 0), prompt=4200)
    assert UNSPECIFIC in diagnosis.read(measured(low, long=long, repeated=low)).cause


def test_thinking():
    verdict = judge(measured(phase(296, SHIFTED, thinking=True)), Wanted(acceptance_length=6))
    assert "enable_thinking: false" in verdict.diagnosis


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.20.0", ["40727"]),
        ("0.22.1", ["45343"]),
        ("0.29.0", []),
        ("0.30.0", []),
        ("0.32.1.dev2+ga8062413a", []),
        ("1.0", []),
        (None, []),
    ],
)
def test_what_a_version_is_known_for(version, numbers):
    cause = diagnosis.read(measured(phase(1000, (0,) * 7), version=version)).cause
    assert re.findall(r"vllm#(\d+)", cause) == numbers


def test_measured_only_passes_and_still_names_the_fault():
    verdict = judge(measured(phase(827, MASK_4)), Wanted())
    assert verdict.verdict == "pass"
    assert verdict.says == "Acceptance length 1.22, and no limit was given"
    assert verdict.pattern.ill
    assert "mask_token_id" in verdict.diagnosis


@pytest.mark.parametrize(
    ("least", "verdict"), [(0.349, "pass"), (0.35, "fail")], ids=["rate as measured", "rate above"]
)
def test_rate(least, verdict):
    assert judge(measured(phase(296, SHIFTED)), Wanted(acceptance_rate=least)).verdict == verdict


def test_a_limit_is_met_by_its_own_value():
    # 1 + 400 / 200 is 3 and 100 / 200 is 0.5
    sound = phase(200, (100, 100, 100, 100))
    assert judge(measured(sound), LIMITS).verdict == "pass"


def test_too_few_drafts():
    verdict = judge(measured(phase(16, (16, 16, 16, 16, 16, 15, 15), tokens=125)), LIMITS)
    assert verdict.verdict == "insufficient"
    assert "16 drafts in phase short are too few, 100 would do" in verdict.says
    assert judge(measured(phase(16, (16,) * 7, tokens=125)), Wanted(min_drafts=16)).verdict == "pass"


def test_each_phase_needs_its_drafts():
    verdict = judge(measured(phase(129, RIGHT), long=phase(50, (40, 30))), LIMITS)
    assert "50 drafts in phase long" in verdict.says


@pytest.mark.parametrize(("drafts", "words"), [(None, "name no drafts"), (0, "count no draft")])
def test_no_speculation(drafts, words):
    verdict = judge(measured(phase(drafts, (0,) * 7)), LIMITS)
    assert verdict.verdict == "no_speculation"
    assert verdict.says == f"The server does not speculate: /metrics {words} while it answered"
    assert "--speculative-config" in verdict.diagnosis


def test_an_engine_that_shows_nothing():
    silent = probe.Phase([Answer(31, 125, 0.05, False)], 1.0, metrics.Counters())
    verdict = judge(measured(silent, source="/metrics (it answered 404; no log was named)"), LIMITS)
    assert verdict.verdict == "insufficient"
    assert verdict.says.endswith("the engine shows no figures in /metrics (it answered 404; no log was named)")
    assert "--disable-log-stats" in verdict.diagnosis


def test_other_traffic():
    mixed = judge(measured(phase(258, [2 * n for n in RIGHT], counted=1500)), LIMITS)
    assert mixed.verdict == "pass"
    assert "mixed: 32% of the counted tokens belong to other traffic" in mixed.message
    drowned = judge(measured(phase(1290, [10 * n for n in RIGHT], counted=10170)), LIMITS)
    assert drowned.verdict == "insufficient"
    assert "most of what was counted is other traffic" in drowned.says


def test_counters_of_another_server():
    verdict = judge(measured(phase(129, RIGHT, counted=512)), LIMITS)
    assert verdict.verdict == "insufficient"
    assert "of the 1017 tokens received, /metrics account for 512 only" in verdict.says


def test_an_old_log_tells_only_the_rate():
    drafting = metrics.Drafting(0, 700, 301)
    old = probe.Phase([Answer(31, 400, 0.05, False)], 1.0, metrics.Counters(drafting, heard=True))
    verdict = judge(measured(old, source="the lines that server.log gained"), LIMITS)
    assert verdict.verdict == "insufficient"
    assert "do not tell what acceptance_length and position_0 would be judged by" in verdict.says
    assert judge(measured(old), Wanted(acceptance_rate=0.4)).verdict == "pass"
    assert judge(measured(old), Wanted(acceptance_rate=0.5)).verdict == "fail"
    assert judge(measured(old), Wanted(baseline={"acceptance_length": 4.0})).verdict == "insufficient"


def test_a_drop_against_the_baseline():
    """syv-ai/qwen38-27b-rtx3090#73: 3.19 fell to 2.66 from one version to the next."""
    now = measured(phase(100, (80, 50, 36)), version="0.28.0")
    verdict = judge(now, Wanted(baseline={"acceptance_length": 3.19, "version": "0.27.1"}))
    assert verdict.verdict == "fail"
    assert "acceptance length 2.66 is 17% below the 3.19 of the baseline, more than 10%" in verdict.says
    assert "vLLM went from 0.27.1 to 0.28.0: a regression of the engine" in verdict.diagnosis
    assert judge(now, Wanted(baseline={"acceptance_length": 3.19}, max_drop=0.2)).verdict == "pass"
    assert judge(now, Wanted(baseline={"acceptance_length": 2.9})).verdict == "pass"


def test_a_drop_that_the_version_does_not_explain():
    now = measured(phase(100, (80, 50, 36)), version="0.28.0")
    then = {"acceptance_length": 3.19, "version": "0.28.0", "per_position": [0.8, 0.6, 0.5]}
    assert "Something other than the version" in judge(now, Wanted(baseline=then)).diagnosis
    then["per_position"] *= 2
    assert "proposes 3 tokens at a time now and 6 then" in judge(now, Wanted(baseline=then)).diagnosis


def test_a_fault_outweighs_the_baseline():
    verdict = judge(measured(phase(827, MASK_4)), Wanted(baseline={"acceptance_length": 7.92}))
    assert UNSPECIFIC in verdict.diagnosis


def test_a_baseline_is_compared_phase_by_phase():
    now = measured(phase(100, (80, 50, 36)), long=phase(100, (50, 20, 10), prompt=4000))
    then = {
        "acceptance_length": 2.23,
        "phases": {"short": {"acceptance_length": 2.66}, "long": {"acceptance_length": 2.5}},
    }
    verdict = judge(now, Wanted(baseline=then))
    assert "acceptance length 1.80 in phase long is 28% below the 2.50" in verdict.says
    assert "in phase short" not in verdict.says


def test_an_unreachable_server():
    verdict = unreachable("Nothing listens", "[Errno 111]", "Start it")
    assert verdict.message == "Nothing listens.\nEvidence: [Errno 111].\nRemedy: Start it."
    assert verdict.diagnosis == "Nothing listens. Start it."

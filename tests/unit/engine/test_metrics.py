"""Counters read from what vLLM 0.32.0 showed after two rounds of eight prompts with target_layer_ids [0, 1, 2]."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import metrics

RECORDED = (Path(__file__).parent / "metrics.txt").read_text()
PREFIX = "(APIServer pid=29801) INFO 11-30 06:45:23 [metrics.py:120] "


def test_reads_what_the_engine_showed():
    c = metrics.read(RECORDED)
    assert c.drafting == metrics.Drafting(1890, 13230, 128, (118, 8, 2, 0, 0, 0, 0))
    assert (c.generated, c.cache_hits, c.heard, c.asleep, c.started) == (2034, 0, True, False, 1.79603468839e09)
    assert c.drafting.acceptance_length == pytest.approx(1.0677, abs=1e-4)
    assert c.drafting.acceptance_rate == pytest.approx(0.009675, abs=1e-6)
    assert c.drafting.per_position[0] == pytest.approx(0.06243, abs=1e-5)


def test_sums_over_engines():
    second = "".join(
        line.replace('engine="0"', 'engine="1"') + "\n"
        for line in RECORDED.splitlines()
        if line.startswith(("vllm:spec_decode", "vllm:generation"))
    )
    c = metrics.read(RECORDED + second)
    assert c.drafting == metrics.Drafting(3780, 26460, 256, (236, 16, 4, 0, 0, 0, 0))
    assert c.generated == 4068


def test_positions_are_ordered_as_numbers():
    lines = [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{n}"}} {n}' for n in (10, 9, 0, 2, 1)]
    c = metrics.read("\n".join(["vllm:spec_decode_num_drafts_total 10", *lines]))
    assert c.drafting.accepted_at == (0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10)


def test_labels_may_hold_anything():
    name = r"a \"quoted\" {name}, with=\"all\" of it\\"
    c = metrics.read(f'vllm:generation_tokens_total{{engine="0",model_name="{name}"}} 12.0 1796034688390\n')
    assert c.generated == 12


@pytest.mark.parametrize("text", ["", "<html>404</html>", "vllm:generation_tokens_tot", "# nothing\npython_info 1.0\n"])
def test_what_is_not_vllm_says_nothing(text):
    c = metrics.read(text)
    assert (c.drafting, c.generated, c.heard) == (None, None, False)


def test_one_sleeping_engine_of_two_is_seen():
    line = 'vllm:engine_sleep_state{{engine="{}",sleep_state="awake"}} {}\n'
    assert not metrics.read(line.format(0, 1.0) + line.format(1, 1.0)).asleep
    assert metrics.read(line.format(0, 1.0) + line.format(1, 0.0)).asleep


def test_delta():
    before = metrics.Counters(metrics.Drafting(10, 70, 20, (10, 10)), 40, 5, True, started=1)
    after = metrics.Counters(metrics.Drafting(30, 210, 50, (25, 15)), 100, 25, True, started=1)
    assert metrics.delta(before, after) == metrics.Counters(metrics.Drafting(20, 140, 30, (15, 5)), 60, 20, True)


def test_delta_where_counters_appear_with_the_first_request():
    after = metrics.Counters(metrics.Drafting(3, 21, 2, (2,)), 9, 0, heard=True)
    assert metrics.delta(metrics.Counters(), after) == after


@pytest.mark.parametrize(
    "after",
    [
        metrics.Counters(metrics.Drafting(3, 21, 2), 100, heard=True, started=1),
        metrics.Counters(metrics.Drafting(30, 210, 50), 10, heard=True, started=1),
        metrics.Counters(metrics.Drafting(30, 210, 50), 100, heard=True, started=2),
        metrics.Counters(None, 100, heard=True, started=1),
    ],
)
def test_a_restart_is_never_a_figure(after):
    before = metrics.Counters(metrics.Drafting(10, 70, 20), 40, heard=True, started=1)
    with pytest.raises(metrics.CountersResetError):
        metrics.delta(before, after)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        # Eras one and two name no drafts; the second lets them be worked out.
        ("Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens", metrics.Drafting()),
        ("Draft acceptance rate: 43.0%, Accepted: 301 tokens, Drafted: 700 tokens", metrics.Drafting(0, 700, 301)),
        (
            "SpecDecoding metrics: Draft acceptance rate: 60.0%, Mean acceptance length: 2.20, Accepted: 120 tokens, "
            "Drafted: 200 tokens, Per-position acceptance rate: 0.800, 0.400",
            metrics.Drafting(100, 200, 120, (80, 40)),
        ),
        (
            "SpecDecoding metrics: Mean acceptance length: 1.20, Accepted: 20 tokens, Drafted: 300 tokens, "
            "Avg Draft acceptance rate: 6.7%",
            metrics.Drafting(100, 300, 20),
        ),
        # Era three, as recorded from 0.32.0.
        (
            "SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.50 tokens/s, Drafted throughput: "
            "702.97 tokens/s, Accepted: 1 tokens, Drafted: 1407 tokens, Per-position acceptance rate: 0.005, 0.000, 0.000, "
            "0.000, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 0.1%",
            metrics.Drafting(201, 1407, 1, (1.005, 0, 0, 0, 0, 0, 0)),
        ),
        # Era four says how deep it drafts at the moment.
        (
            "SpecDecoding metrics: Mean acceptance length: 2.00, Current speculative depth: 2, Accepted throughput: 1.0 "
            "tokens/s, Drafted throughput: 1.0 tokens/s, Accepted: 50 tokens, Drafted: 100 tokens, Per-position acceptance "
            "rate: 0.700, 0.300, 0.000, Avg Draft acceptance rate: 50.0%",
            metrics.Drafting(50, 100, 50, (35, 15, 0)),
        ),
    ],
)
def test_reads_the_log_of_every_era(line, found):
    read = metrics.read_line(PREFIX + line)
    assert (read.drafted, read.accepted) == (found.drafted, found.accepted)
    assert read.drafts == pytest.approx(found.drafts)
    assert read.accepted_at == pytest.approx(found.accepted_at)


@pytest.mark.parametrize(
    "line",
    [
        "Engine 000: Avg prompt throughput: 3.1 tokens/s, Avg generation throughput: 62.5 tokens/s, Running: 1 reqs",
        "DiffusionDecoding metrics: Committed token throughput: 1.0 tokens/s, Committed: 5 tokens, Denoising steps: 3",
        "Accepted: 5 tokens of cake",
        "",
    ],
)
def test_other_lines_say_nothing(line):
    assert metrics.read_line(PREFIX + line) is None


LINE = PREFIX + "SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 35 tokens, Drafted: 70 tokens, "
LINE += "Per-position acceptance rate: 1.000, 1.000, 1.000, 0.500, 0.000, 0.000, 0.000\n"


def test_a_log_is_the_sum_of_its_complete_lines():
    c = metrics.read_log(LINE * 2 + LINE[:-1])
    assert c.drafting == metrics.Drafting(20, 140, 70, (20, 20, 20, 10, 0, 0, 0))
    assert (c.generated, c.heard) == (90, True)


def test_a_log_without_speculation_is_told_from_a_silent_one():
    spoke = (
        PREFIX + "Engine 000: Avg prompt throughput: 3.1 tokens/s, Avg generation throughput: {} tokens/s, Running: 1\n"
    )
    assert metrics.read_log(spoke.format("62.5")) == metrics.Counters(heard=True)
    assert metrics.read_log(spoke.format("0.0")) == metrics.Counters()

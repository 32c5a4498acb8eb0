"""The story's A/B on the real engine: the wrong config is slow and right, the mended one fast and right."""

from __future__ import annotations

import json
import os
import re
import socket

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

pytestmark = pytest.mark.engine


def test_compare_measures_mends_and_leaves_nothing(site, tmp_path):
    report = tmp_path / "compare.json"
    # With thresholds from the command line, which no play can take back.
    run = site.play(
        "compare", vllm_compare_report=str(report), vllm_verify_acceptance_length=7, vllm_verify_position_0=0.9
    )
    assert run.code == 0

    figures = json.loads(report.read_text())
    assert set(figures) == {"before", "after"}
    before, after = figures["before"], figures["after"]
    assert before["acceptance_rate"] <= 0.05
    assert after["acceptance_rate"] >= 0.95
    assert before["acceptance_length"] < 1.5
    assert after["acceptance_length"] > 7
    assert after["position_0"] > 0.95
    assert after["tokens_per_second"] > before["tokens_per_second"]
    assert f"acceptance rate{before['acceptance_rate']:>13.1%}{after['acceptance_rate']:>10.1%}" in run.output

    assert processes.session_members(site.record) == []
    assert len(list((site.home / "log").iterdir())) == 2


def test_a_good_server_on_its_port_is_left_alone(site, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        run = site.play(
            "compare", vllm_serve_port=s.getsockname()[1], vllm_compare_report=str(tmp_path / "compare.json")
        )
    assert run.code != 0
    assert f"is occupied by pid {os.getpid()}" in re.sub(r"\s+", " ", run.output)
    assert not (tmp_path / "compare.json").exists()


@pytest.mark.long
def test_two_releases_take_turns_and_what_was_served_is_served_again(site, tmp_path):
    """The two of the first test, by name: before, after, after, before."""
    found, mended = releases = launched(site)
    assert site.play("restart").code == 0
    report = tmp_path / "compare.json"
    run = site.play("compare", vllm_compare_releases=releases, vllm_compare_rounds=2, vllm_compare_report=str(report))
    assert run.code == 0

    figures = json.loads(report.read_text())
    assert figures["before"]["acceptance_rate"] <= 0.05
    assert figures["after"]["acceptance_rate"] >= 0.95
    speeds = [figures[name]["each_tokens_per_second"] for name in ("before", "after")]
    assert [len(each) for each in speeds] == [2, 2]
    assert max(speeds[0]) < min(speeds[1])
    assert launched(site) == [found, mended, mended, found, mended, found, mended]
    assert processes.alive(site.record)
    assert site.record.argv[-1] == str(site.home / f"releases/{mended}/launch.py")


def launched(site):
    """The releases in the order of their launches, as their logs tell."""
    return [
        log.name.rpartition("-")[0]
        for log in sorted((site.home / "log").iterdir(), key=lambda log: log.stat().st_ctime_ns)
    ]

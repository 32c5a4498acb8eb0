"""The table that status.yml shows."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.filter.status_table import span, status_table

RUNNING = {
    "current": {
        "id": "ff941c963d81",
        "url": "http://127.0.0.1:8000",
        "build": {"version": "0.32.1", "commit": "a8062413ab7f4e9d1c0c"},
    },
    "running": "ff941c963d81",
    "state": "active (running)",
    "uptime": 97_265,
    "restarts": 2,
    "acceptance_length": 4.1234,
}


def test_one_line_for_every_host():
    stopped = {"current": {**RUNNING["current"], "build": {"version": "0.32.0"}}, "running": None, "state": "stopped"}
    assert status_table({"gpu1": RUNNING, "a-long-name": stopped, "gone": None}).splitlines() == [
        "host         release       commit     state             uptime  restarts  acceptance  port",
        "gpu1         ff941c963d81  a8062413a  active (running)  1d 3h   2         4.12        8000",
        "a-long-name  ff941c963d81  0.32.0     stopped           -       -         -           8000",
        "gone         -             -          not reached       -       -         -           -",
    ]


def test_another_release_than_the_current_one_is_said():
    assert "  0123456789ab, not ff941c963d81  " in status_table({"gpu1": {**RUNNING, "running": "0123456789ab"}})


def test_nothing_was_ever_served():
    line = status_table({"gpu1": {"current": {}, "running": None, "state": "stopped", "acceptance_length": None}})
    assert line.splitlines()[1].split() == ["gpu1", "none", "-", "stopped", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "-"), (0, "0s"), (59, "59s"), (60, "1m 0s"), (3599, "59m 59s"), (3600, "1h 0m"), (90_061, "1d 1h")],
)
def test_a_span_in_its_two_greatest_units(seconds, said):
    assert span(seconds) == said

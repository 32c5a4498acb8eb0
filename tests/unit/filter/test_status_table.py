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


def rank(number, running="r1", name="big", hosts=("gpu1", "gpu2", "gpu3")):
    place = {"name": name, "rank": number, "hosts": list(hosts), "executor": "mp"}
    url = "" if number else "http://127.0.0.1:8000"
    current = {**RUNNING["current"], "id": "r1", "url": url, "deployment": place}
    return {**RUNNING, "current": current, "running": running, "state": "running" if running else "stopped"}


def test_ranks_where_several_hosts_run_one_server():
    assert status_table(
        {"gpu1": rank(0), "gpu2": rank(1), "gpu3": rank(2), "gpu4": RUNNING, "gone": None}
    ).splitlines() == [
        "host  rank    release       commit     state             uptime  restarts  acceptance  port",
        "gpu1  0 of 3  r1            a8062413a  running           1d 3h   2         4.12        8000",
        "gpu2  1 of 3  r1            a8062413a  running           1d 3h   2         4.12        -",
        "gpu3  2 of 3  r1            a8062413a  running           1d 3h   2         4.12        -",
        "gpu4  -       ff941c963d81  a8062413a  active (running)  1d 3h   2         4.12        8000",
        "gone  -       -             -          not reached       -       -         -           -",
    ]


def states(**hosts):
    at = [line.split("  ") for line in status_table(hosts).splitlines()]
    return [
        next(cell.strip() for cell in line if cell.strip().startswith(("running", "stopped", "not"))) for line in at[1:]
    ]


OTHER = {**RUNNING, "state": "running"}


@pytest.mark.parametrize("missing", [None, rank(1, running=None), rank(1, name="other"), OTHER])
def test_a_head_without_a_follower(missing):
    """Not reached, stopped, or with something else."""
    head, _missing, other = states(gpu1=rank(0), gpu2=missing, gpu3=rank(2))
    assert (head, other) == ("running, without gpu2", "running")


def test_followers_without_a_head():
    assert states(gpu1=None, gpu2=rank(1), gpu3=rank(2, running=None)) == [
        "not reached",
        "running, without gpu1",
        "stopped",
    ]
    assert states(gpu1=rank(0), gpu2=None, gpu3=None) == ["running, without gpu2, gpu3", "not reached", "not reached"]


def test_of_hosts_that_were_not_looked_at_nothing_is_said():
    assert states(gpu1=rank(0), gpu3=rank(2)) == ["running", "running"]
    assert states(gpu2=rank(1)) == ["running"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "-"), (0, "0s"), (59, "59s"), (60, "1m 0s"), (3599, "59m 59s"), (3600, "1h 0m"), (90_061, "1d 1h")],
)
def test_a_span_in_its_two_greatest_units(seconds, said):
    assert span(seconds) == said

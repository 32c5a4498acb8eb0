"""The callback in real runs of ansible-playbook, with roles of the collection that need no engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

CLONE = Path(__file__).parents[2]
PAIR = CLONE / "playbooks/files/tiny-pair"
RIGHT = {
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 24,
}
KEY = "sk-THISisASECRETthatNOBODYmaySEE"
HOSTS = ["first", "second", "third", "<script>alert(4)</script>"]
PLAY = {
    "name": "Mend",
    "hosts": "fleet",
    "gather_facts": False,
    "serial": 1,
    "max_fail_percentage": 0,
    "roles": [{"role": "llmops.vllm.vllm_models"}],
    "tasks": [
        {"name": "Judge", "include_role": {"name": "llmops.vllm.vllm_drafter"}},
        {"action": "{{ 'debug' }} msg={{ item }}", "loop": [1, 2]},
        {"name": "Hide", "debug": {"msg": KEY}, "no_log": True},
        {"name": "Whisper", "fail": {"msg": KEY}, "no_log": True, "ignore_errors": True},
        {"name": "Fall", "fail": {"msg": "token=" + KEY + " </pre><script>"}, "when": "inventory_hostname == 'third'"},
    ],
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts a playbook with the callback enabled. Returns the run, and its directory."""

    def run(*plays: dict, **environment: str) -> tuple[subprocess.Popen[str], Path]:
        tmp_path = tmp_path_factory.mktemp("run")
        hosts = {host: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable} for host in HOSTS}
        variables = {
            "vllm_home": str(tmp_path / "home"),
            "vllm_models_target": {"path": f"{PAIR}/target"},
            "vllm_models_drafter": {"path": f"{PAIR}/drafter"},
            "vllm_build_result": {"version": "0.32.0"},
            "vllm_drafter_values": RIGHT,
        }
        (tmp_path / "hosts.json").write_text(json.dumps({"fleet": {"hosts": hosts, "vars": variables}}))
        (tmp_path / "mend.yml").write_text(json.dumps(plays))
        (tmp_path / "ansible.cfg").write_text(
            "[defaults]\ncallbacks_enabled = llmops.vllm.report\n[callback_report]\ndirectory = reports\n"
        )
        started = subprocess.Popen(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.json", "mend.yml"],
            cwd=tmp_path,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(CLONE / ".collections"),
                "ANSIBLE_HOME": str(tmp_path / "ansible"),
                "ANSIBLE_NOCOLOR": "1",
                **environment,
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return started, tmp_path

    return run


@pytest.fixture(scope="module")
def play(start):
    """Runs one to its end. Returns the run, and the paths of its reports, page and JSON."""

    def run(*plays: dict, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
        started, tmp_path = start(*plays, **environment)
        said = started.communicate()[0]
        print(said)
        return subprocess.CompletedProcess(started.args, started.returncode, said), sorted(tmp_path.glob("reports/*"))

    return run


@pytest.fixture(scope="module")
def stopped(play):
    return play(PLAY)


def test_a_run_that_fails_half_way(stopped):
    done, (page, data) = stopped
    assert done.returncode == 2
    assert f"Report: {page}" in done.stdout
    assert "WARNING" not in done.stdout
    run = json.loads(data.read_text())
    assert [(h["name"], h["batch"], h["verdict"]) for h in run["hosts"]] == [
        ("first", 1, "done"),
        ("second", 2, "done"),
        ("third", 3, "failed"),
        (HOSTS[3], None, "not reached"),
    ]
    assert (run["playbook"], run["verdict"]) == ("mend", "failed")
    first = run["hosts"][0]
    assert [stage["role"] for stage in first["stages"]] == ["models", "drafter"]
    assert {"dflash_config.mask_token_id", "sliding_window"} <= {finding["key"] for finding in first["findings"]}
    assert all(0 <= s["started"] <= s["started"] + s["seconds"] <= run["seconds"] + 0.1 for s in first["stages"])
    assert [f["task"] for f in run["hosts"][2]["failures"]] == ["Fall"]
    assert data.stem == page.stem
    # Whole files only: nothing is left of how they were made.
    assert {path.suffix for path in page.parent.iterdir()} == {".json", ".html"}


def test_what_is_hidden_stays_hidden_and_what_is_text_stays_text(stopped):
    _unused, (page, data) = stopped
    for text in (page.read_text(), data.read_text()):
        assert KEY not in text
    assert "<script" not in page.read_text()
    assert "&lt;script&gt;alert(4)" in page.read_text()


def test_a_run_without_this_collection_leaves_nothing(play):
    done, reports = play({"hosts": "fleet", "gather_facts": False, "tasks": [{"debug": {"msg": "hello"}}]})
    assert done.returncode == 0
    assert reports == []
    assert "Report:" not in done.stdout


def test_a_report_that_cannot_be_written_is_one_warning(play):
    done, _unused = play({**PLAY, "hosts": "first", "tasks": []}, VLLM_REPORT_DIRECTORY="/proc/nowhere")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert said.count("There will be no report of this run: /proc/nowhere") == 1


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_an_interrupted_run_leaves_what_it_came_to(start, end):
    hang = {"name": "Hang", "wait_for": {"path": "{{ playbook_dir }}/go"}, "when": "inventory_hostname == 'second'"}
    run, where = start({**PLAY, "tasks": [PLAY["tasks"][0], hang]})

    def told() -> dict[str, dict]:
        reports = [json.loads(path.read_text()) for path in where.glob("reports/*.json")]
        return {host["name"]: host for report in reports for host in report["hosts"]}

    wait_for("the page tells where it is", lambda: told().get("second", {}).get("doing") == "Hang", 120)
    run.send_signal(end)
    (where / "go").touch()  # what the run left on the host has its end, too
    said = run.communicate()[0]
    assert run.returncode != 0
    assert {name: host["verdict"] for name, host in told().items()} == {
        "first": "done",
        "second": "unfinished",
        "third": "not reached",
        HOSTS[3]: "not reached",
    }
    assert [stage["role"] for stage in told()["second"]["stages"]] == ["models", "drafter"]
    (page,) = where.glob("reports/*.html")
    assert "If the run is over, it was interrupted here." in page.read_text()
    assert (f"Report: {page}" in said) == (end == signal.SIGINT)

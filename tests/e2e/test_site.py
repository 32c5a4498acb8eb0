"""site.yml on the real engine: once, twice, with an engine that dies, and with bad input beside a server that must not notice."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

pytestmark = pytest.mark.engine
DRAFTER = Path(__file__).parents[2] / "playbooks/files/tiny-pair/drafter"


@pytest.fixture(scope="module")
def served(site):
    """A server that site.yml brought up, with its first run."""
    first = site.play("site")
    assert first.code == 0
    return first


def test_a_dry_run_on_a_fresh_host_says_what_would_be(site, served, tmp_path):
    run = site.play("site", "--check", "--diff", vllm_home=str(tmp_path / "home"))
    assert run.code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_changes_nothing(site, served):
    before = site.record
    second = site.play("site")
    assert second.code == 0
    assert second.changes == []
    assert second.changed == 0
    assert site.record == before
    assert processes.alive(site.record)


def test_what_is_left_on_the_host(site, served):
    release = (site.home / "current").resolve()
    assert release.parent == (site.home / "releases").resolve()
    assert (release / "env.json").stat().st_mode & 0o777 == 0o600
    evidence = json.loads((release / "evidence.json").read_text())
    assert evidence["measured"]["acceptance_rate"] >= 0.95
    assert json.loads((DRAFTER / "config.json").read_text())["dflash_config"]["mask_token_id"] == 4, (
        "the drafter as found stays"
    )


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ({"vllm_models_target": {"path": "/nowhere/target"}}, "There is no model at /nowhere/target"),
        ({"vllm_build_mode": "existing", "vllm_build_venv": "/nowhere/venv"}, "No vLLM is installed in /nowhere/venv"),
        ({"vllm_serve_args": {"port": 1}}, "vllm_serve_args holds port"),
        ({"vllm_serve_args": {"api-key": "x"}}, "set vllm_serve_api_key instead"),
        (
            {"vllm_serve_args": {"no-such-flag": 1}},
            "vllm: error: unrecognized arguments: --no-such-flag=1. Nothing was written.",
        ),
        ({"vllm_serve_args": {"max-num-seqs": "four"}}, "argument --max-num-seqs: invalid"),
        ({"vllm_serve_env": {"VLLM_LOGGING_LEVEL": True}}, "VLLM_LOGGING_LEVEL is true or false"),
        ({"vllm_serve_port": 70000}, "a port is a number from 1 to 65535"),
        ({"vllm_home": "~/vllm"}, "has to be a whole path"),
        ({"vllm_instance": "../x"}, "has to be made of letters"),
        ({"vllm_user": "vllm-no-such-user"}, "There is no user vllm-no-such-user"),
        ({"vllm_build_mode": "guess"}, "value of vllm_build_mode must be one of"),
    ],
    ids=[
        "missing model",
        "missing engine",
        "flag with a variable of its own",
        "key as a flag",
        "flag that this build does not have",
        "flag with a wrong type",
        "no text",
        "no port",
        "relative home",
        "instance that is a path",
        "unknown user",
        "unknown mode",
    ],
)
def test_bad_input_is_named_and_the_server_goes_on(site, served, wrong, cause):
    before = site.record
    run = site.play("site", **wrong)
    assert run.code != 0
    assert cause in unfolded(run.output)
    assert site.record == before
    assert processes.alive(site.record)


def test_a_config_that_is_not_json_is_named_by_its_line(site, served, tmp_path):
    before = site.record
    drafter = shutil.copytree(DRAFTER, tmp_path / "drafter")
    text = (drafter / "config.json").read_text().replace('"block_size": 8,', '"block_size": 8')
    (drafter / "config.json").write_text(text)
    line = text[: text.index('"block_size": 8')].count("\n") + 2
    run = site.play("site", vllm_models_drafter={"path": str(drafter)})
    assert run.code != 0
    assert f"{drafter}/config.json" in unfolded(run.output)
    assert re.search(rf"\bline {line}\b", unfolded(run.output))
    assert (drafter / "config.json").read_text() == text
    assert site.record == before


def test_an_occupied_port_is_named_by_its_owner(site, served):
    before = site.record
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        run = site.play("site", vllm_serve_port=port)
    assert run.code != 0
    assert f"Port {port} on 127.0.0.1 is occupied by pid {os.getpid()}" in unfolded(run.output)
    assert site.record == before
    assert processes.alive(site.record)


@pytest.mark.parametrize("victim", ["engine", "server"])
def test_killed_while_loading_is_said_at_once(site, served, victim):
    """SIGKILL while the engine starts: the play fails, and says what died."""
    before = site.record
    play = site.start("site", vllm_serve_env={"KILLED": victim})
    until(lambda: site.record != before, 300)
    record = site.record
    until(lambda: engine_of(record), 300)
    pid = engine_of(record) if victim == "engine" else record.pid
    os.kill(pid, signal.SIGKILL)
    died = time.monotonic()
    output = play.communicate()[0]
    print(f"{victim}: the play ended {time.monotonic() - died:.1f} s after the death\n{output}")
    assert play.returncode != 0
    if victim == "server":
        assert f"pid {pid}" in unfolded(output)
        assert "SIGKILL" in unfolded(output)
    else:
        assert "an engine process ended without a word" in unfolded(output)


def unfolded(output):
    """Ansible folds long messages into indented lines."""
    return re.sub(r"\s+", " ", output)


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


def engine_of(record):
    """The engine's process, once it calls itself so."""
    return next(
        (pid for pid in processes.session_members(record) if "EngineCore" in " ".join(processes.command_line(pid))),
        None,
    )

"""vllm_instance_info with real processes and a real socket: whose answer counts."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[3] / "plugins/modules/vllm_instance_info.py"
# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = f"""
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path("{MODULE}", run_name="__main__")
"""


@pytest.fixture
def info(tmp_path):
    def call(**params):
        args = {"instance": str(tmp_path), "pidfile": str(tmp_path / "run/server.pid"), **params}
        done = subprocess.run(
            [sys.executable, "-c", PROFILED],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_remote_tmp": str(tmp_path)}}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


def release(instance, **content):
    (instance / "current").mkdir()
    (instance / "current/release.json").write_text(json.dumps({"id": "r1", **content}))


def test_nothing_was_ever_served(info):
    found = info()
    assert found["current"] == {}
    assert (found["running"], found["state"], found["restarts"], found["pid"]) == (None, "stopped", None, None)


def test_a_stopped_release_with_its_measurement(info, tmp_path):
    release(tmp_path, url="http://127.0.0.1:1")
    (tmp_path / "current/evidence.json").write_text(json.dumps({"measured": {"acceptance_length": 4.1}}))
    found = info()
    assert (found["current"]["id"], found["running"], found["acceptance_length"]) == ("r1", None, 4.1)


def test_an_answer_of_another_process_is_none(info, tmp_path):
    """This process answers on the port; the one that the pid file knows is gone."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        release(tmp_path, url=f"http://127.0.0.1:{server.server_port}")
        found = info(generate=True)
        server.shutdown()
    assert found["failed"]
    assert f"Another server answers at http://127.0.0.1:{server.server_port}" in found["msg"]
    assert f"pid {os.getpid()} (" in found["msg"]


def test_nobody_answers(info, tmp_path):
    release(tmp_path, url="http://127.0.0.1:1")
    assert "Nothing listens at http://127.0.0.1:1" in info(generate=True)["msg"]
    assert "There is no address to ask" in info(instance=str(tmp_path / "nowhere"), generate=True)["msg"]


def test_who_is_headless_is_not_asked(info, tmp_path):
    place = {"name": "big", "rank": 1, "hosts": ["gpu1", "gpu2"], "executor": "mp"}
    release(tmp_path, url="", deployment=place)
    assert info()["current"]["deployment"] == place
    refused = info(generate=True)
    assert refused["failed"]
    assert refused["msg"] == (
        "This host gives no token. It has rank 1 in the deployment big and is headless, so nothing listens here. "
        "Ask the head, which is gpu1."
    )
    assert not info(generate=True, **{"_ansible_check_mode": True}).get("failed")


def test_another_release_than_was_launched_is_said_to_run(info, tmp_path):
    release(tmp_path, url="http://127.0.0.1:1")
    with subprocess.Popen(["sleep", "600"]) as other:
        stat = Path(f"/proc/{other.pid}/stat").read_text()
        record = {
            "pid": other.pid,
            "start_ticks": int(stat[stat.rindex(")") + 2 :].split()[19]),
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "argv": ["python", f"{tmp_path}/releases/r2/launch.py"],
            "started_at": "2026-01-01T00:00:00+00:00",
            "log": f"{tmp_path}/log/r2-1.log",
            "mark": {},
        }
        (tmp_path / "run").mkdir()
        (tmp_path / "run/server.pid").write_text(json.dumps(record))
        refused, right = info(release="r1"), info(release="r2")
        other.kill()
    assert refused["failed"]
    assert "What runs is r2 and not r1: another run, or a person, works on this instance." in refused["msg"]
    assert not right.get("failed")

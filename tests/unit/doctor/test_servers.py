"""Servers are found among real processes. A script stands in vLLM's place: what is looked at is the process, not the engine."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import cmdline, examination, servers

SERVER = """
import socket, subprocess, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
held = socket.create_server(("127.0.0.1", port))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("up", child.pid, flush=True)
time.sleep(600)
"""
KEY = "canary-5f1d0c"


@pytest.fixture
def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def started(tmp_path, port):
    """The process, and its child."""
    script = tmp_path / "bin/vllm"
    script.parent.mkdir()
    script.write_text(SERVER)
    log = tmp_path / "server.log"
    words = [
        "serve",
        "models/target",
        "--port",
        str(port),
        "--api-key",
        KEY,
        "--speculative-config",
        '{"model": "models/draft"}',
    ]
    with open(log, "w") as output:
        process = subprocess.Popen(
            [sys.executable, script, *words], cwd=tmp_path, stdout=output,
            env={**os.environ, "HF_TOKEN": KEY, "VLLM_LOGGING_LEVEL": "INFO", "EDITOR": "vi"},
        )  # fmt: skip
    said = ""
    while not said.endswith("\n"):
        said = log.read_text()
    yield process.pid, int(said.split()[1])
    os.kill(int(said.split()[1]), 9)
    process.kill()
    process.wait()


def mine(pid: int) -> servers.Server:
    (one,) = [server for server in servers.find()[0] if server.pid == pid]
    return one


def test_what_is_told_of_a_server(started, tmp_path, port):
    pid, child = started
    server = mine(pid)
    assert (server.model, server.port, server.host, server.listens) == ("models/target", port, "0.0.0.0", [port])
    assert (server.cwd, server.log) == (str(tmp_path), str(tmp_path / "server.log"))
    assert server.speculative == {"model": "models/draft"}
    assert list(server.workers) == [child]
    assert server.python == str(tmp_path / "bin/python")
    assert server.hidden == []
    assert f"pid {os.getpid()}" in server.parent


def test_what_it_runs_is_told(started, tmp_path):
    """Its models by where it looks for them, and the vLLM in its venv by what lies there."""
    for model in ("target", "draft"):
        (tmp_path / "models" / model).mkdir(parents=True)
        (tmp_path / "models" / model / "config.json").write_text("{}")
    found = tmp_path / "lib/python3.11/site-packages/vllm-0.32.1.dev2+ga8062413a.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Name: vllm\nVersion: 0.32.1.dev2+ga8062413a\n")
    (found / "RECORD").write_text("vllm/__init__.py,,\n")
    told = examination.describe(mine(started[0]))
    assert (told["target"], told["drafter"]) == (str(tmp_path / "models/target"), str(tmp_path / "models/draft"))
    assert told["build"] == {
        "version": "0.32.1.dev2+ga8062413a",
        "commit": "a8062413a",
        "method": "index",
        "device": None,
    }
    assert KEY not in str(told)


@pytest.mark.parametrize(
    ("out", "err", "told"), [("o", "e", "o"), ("/dev/null", "e", "e"), ("/dev/null", "/dev/null", "/dev/null")]
)
def test_where_it_writes(tmp_path, out, err, told):
    """Also where only its errors go to a file."""
    line = b"(APIServer pid=1) INFO 01-01 00:00:00 [x.py:1] vLLM API server version 0.32.0\n"
    script = tmp_path / "vllm"
    script.write_text(
        f"import os, time; os.write(1, {line!r}); os.write(2, {line!r}); open('up', 'w').close(); time.sleep(600)"
    )
    with open(tmp_path / out, "w") as first, open(tmp_path / err, "w") as second:
        process = subprocess.Popen([sys.executable, script, "serve", "m"], cwd=tmp_path, stdout=first, stderr=second)
    try:
        while not (tmp_path / "up").exists():
            assert process.poll() is None
        server = mine(process.pid)
        judge = examination._log(server, {})
    finally:
        process.kill()
        process.wait()
    assert server.log == (told if told == "/dev/null" else str(tmp_path / told))
    assert (judge.progress.facts if judge else None) == (None if told == "/dev/null" else {"version": "0.32.0"})


def test_no_secret_is_told(started):
    told = mine(started[0]).public()
    assert KEY not in str(told)
    assert told["argv"][-4:] == ["--api-key", "********", "--speculative-config", '{"model": "models/draft"}']
    assert told["environment"] == {"HF_TOKEN": "********", "VLLM_LOGGING_LEVEL": "INFO"} | {
        name: value for name, value in told["environment"].items() if name in os.environ
    }
    assert "EDITOR" not in told["environment"]


def test_what_can_not_be_shown_costs_only_that_server(started, monkeypatch):
    """A double for faults that nobody knows yet. What reads the answer finds all keys that others have."""
    server = mine(started[0])
    whole = examination.describe(server), examination.examine(server)
    monkeypatch.setattr(servers.Server, "public", lambda self: 1 / 0)
    described, examined = examination.describe(server), examination.examine(server)
    assert (set(described), set(examined)) == (set(whole[0]), set(whole[1]))
    assert (described["pid"], examined["pid"]) == (server.pid, server.pid)
    assert described["hidden"] == ["all but its pid: division by zero"]
    words = f"What is to be shown of pid {server.pid} can't be judged: ZeroDivisionError: division by zero."
    assert words in [finding["what"] for finding in examined["findings"]]
    assert examined["health"] != "ok"
    assert KEY not in json.dumps([described, examined])


def test_when_it_was_started_is_known(started):
    server = mine(started[0])
    assert server.started == servers.processes.start_ticks(server.pid)
    assert "started" not in server.public()


def test_what_another_user_sees(started):
    """As an ordinary user without sudo: what can't be seen is listed, what can is told."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = (
        "import json, os\nfrom ansible_collections.llmops.vllm.plugins.module_utils._doctor import namespaces, servers\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"print(json.dumps([s.public() for s in servers.find()[0] if s.pid == {started[0]}]))\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[3] / ".collections"), *sys.path])
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert said.returncode == 0, said.stderr
    (told,) = json.loads(said.stdout)
    assert told["model"] == "models/target"
    assert told["environment"] is None
    assert told["hidden"] == ["its environment", "its working directory", "where it writes its log"]
    assert KEY not in said.stdout


def test_one_that_can_not_be_read_is_told_and_hides_no_other(started, tmp_path, monkeypatch):
    """A double for faults that nobody knows yet: those that are known are mended."""
    with subprocess.Popen([sys.executable, tmp_path / "bin/vllm", "serve", "unreadable", "--port", "0"]) as other:
        try:
            parse = cmdline.parse
            monkeypatch.setattr(cmdline, "parse", lambda words: parse([]) if words[0] != "unreadable" else 1 / 0)
            found, orphans, unread = servers.find()
        finally:
            other.kill()
    assert started[0] in [server.pid for server in found]
    assert [line for line in unread if line.startswith(f"pid {other.pid}, of ") and "ZeroDivisionError" in line]
    assert not [line for line in orphans if str(other.pid) in line]


@pytest.mark.parametrize(
    ("argv", "environment", "python"),
    [
        ("/v/bin/python /v/bin/vllm serve m", {}, "/v/bin/python"),
        ("/usr/bin/python3 .venv/bin/vllm serve m", {}, "/srv/.venv/bin/python"),
        ("../v/bin/python -m vllm.entrypoints.openai.api_server", {}, "/v/bin/python"),
        ("python -m vllm.entrypoints.openai.api_server", {"VIRTUAL_ENV": "/v"}, "/v/bin/python"),
        ("python3 -m vllm.entrypoints.openai.api_server", {"CONDA_PREFIX": "/c"}, "/c/bin/python3"),
        ("python -m vllm.entrypoints.openai.api_server", {}, "python"),
    ],
)
def test_which_python_runs_it(argv, environment, python):
    server = servers.Server(1, argv.split(), "", {}, environment, "/srv", "", 0.0, "", "", "", "", [], {}, [])
    assert server.python == python


@pytest.mark.parametrize(
    ("told", "port"), [(8001, 8001), (777777, 8000), (0, 8000), (-1, 8000), (True, 8000), ("x", 8000), (None, 8000)]
)
def test_a_port_that_is_none_counts_as_not_told(told, port):
    flags = {} if told is None else {"port": told}
    server = servers.Server(1, ["python"], "", flags, None, "", "", 0.0, "", "", "", "", [9], {}, [])
    assert server.port == port
    assert dataclasses.replace(server, flags={**flags, "config": "x.yml"}).port == (8001 if told == 8001 else 9)


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A program in nvidia-smi's place that tells of one GPU and these processes on it."""

    def uses(*pids: int) -> None:
        rows = "".join(f"GPU-5c, {pid}, 130230, VLLM::EngineCore\n" for pid in pids)
        tool = tmp_path / "tools/nvidia-smi"
        tool.parent.mkdir()
        tool.write_text(
            '#!/bin/sh\ncase "$1" in --query-gpu=*) echo "0, GPU-5c, 143771, 130244, 12912, 570, NVIDIA H200" ;;\n'
            f"--query-compute-apps=*) printf '{rows}' ;; -L) echo 'GPU 0: NVIDIA H200 (UUID: GPU-5c)' ;; esac\n"
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")

    return uses


def test_the_gpus_that_its_processes_use(started, gpu):
    gpu(started[1], 1)
    placed = mine(started[0]).placement
    assert placed["gpus"] == [{"index": 0, "uuid": "GPU-5c", "name": "NVIDIA H200", "memory_used": 130230}]
    assert placed["unknown"] == []


def test_an_engine_whose_server_is_gone_is_told(started, gpu):
    """By its name, which it gives itself, and with what it holds."""
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'VLLM::EngineCor', 0, 0, 0); print('up', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stdout.readline() == "up\n"
            gpu(engine.pid)
            (told,) = [line for line in servers.find()[1] if line.startswith(f"pid {engine.pid} (VLLM::EngineCor")]
            assert told.endswith(", on GPU 0 with 130230 MiB")
        finally:
            engine.kill()

"""What the dead leave behind: found by what can't be forged by accident, and never taken from the living."""

from __future__ import annotations

import mmap
import os
import pwd
import socket
import subprocess
import sys
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import leftovers, processes, stopping

# Calls itself as vLLM's engines do: by writing over its arguments, and over its environment behind them.
RENAMED = """
import ctypes, sys, time
name = b"VLLM::EngineCore"
ctypes.CDLL(None).prctl(15, name[:15], 0, 0, 0)
with open("/proc/self/stat") as f: fields = f.read().rsplit(")", 1)[1].split()
start, end = int(fields[45]), int(fields[48])
ctypes.memset(start, 0, end - start)
ctypes.memmove(start, name, len(name))
print("up", flush=True)
time.sleep(600)
"""
LISTENING = """
import socket, time
s = socket.create_server(("127.0.0.1", {port}))
print("up", flush=True)
time.sleep(600)
"""
WAITING = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def start():
    started = []

    def run(code, launch="", output=subprocess.PIPE, **options):
        env = {**os.environ, **({"LLMOPS_VLLM_LAUNCH": launch} if launch else {})}
        process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=output, text=True, **options)
        started.append(process)
        if process.stdout:
            assert process.stdout.readline() == "up\n"
        return process.pid

    yield run
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def test_known_by_the_launch_script(start, tmp_path):
    ours = start(WAITING, f"{tmp_path}/one/releases/r1/launch.py")
    start(WAITING, f"{tmp_path}/one-more/releases/r1/launch.py")
    start(WAITING)
    assert leftovers.of(f"{tmp_path}/one") == [ours]
    assert len(leftovers.of(str(tmp_path))) == 2


def test_an_engine_that_wrote_over_its_environment_is_known_by_its_log(start, tmp_path):
    with open(tmp_path / "server-1.log", "w") as log:
        engine = start(RENAMED, f"{tmp_path}/launch.py", output=log)
        deadline = time.monotonic() + 20
        while not (tmp_path / "server-1.log").read_text():
            assert time.monotonic() < deadline
    assert processes.variable(engine, "LLMOPS_VLLM_LAUNCH") is None
    assert processes.name(engine) == "VLLM::EngineCore"
    assert leftovers.of(str(tmp_path)) == [engine]


def test_what_nobody_launched_is_strange(start, tmp_path):
    """An engine by its name, whoever holds the port, and whoever is on a GPU; a program stands in nvidia-smi's place."""
    engine = start(RENAMED, start_new_session=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    held = start(LISTENING.format(port=port), start_new_session=True)
    ours = start(WAITING, f"{tmp_path}/one/releases/r1/launch.py", start_new_session=True)
    smi = tmp_path / "nvidia-smi"
    rows = "\n".join(f"GPU-0, {pid}, 10, python" for pid in (engine, ours, 4194303))
    smi.write_text(
        f'#!/bin/sh\ncase "$1" in --query-gpu=*) echo "3, GPU-0, 9, 9, 0, 570, H200" ;; '
        f'--query-compute-apps=*) echo "{rows}" ;; -L) echo "GPU 3: H200 (UUID: GPU-0)" ;; esac\n'
    )
    smi.chmod(0o755)
    said = leftovers.strangers(port, tool=str(smi))
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert f"pid {engine} (VLLM::EngineCore), of {me}, uses GPU 3" in said
    assert f"pid {held} ({processes.name(held)}), of {me}, listens on port {port}" in said
    assert "pid 4194303 of another container, uses GPU 3" in said
    assert not [line for line in said if line.startswith(f"pid {ours} ")]
    assert not [line for line in leftovers.strangers(port, [held]) if line.startswith(f"pid {held} ")]
    assert leftovers.of(str(tmp_path / "two")) == []


def test_shared_memory_in_use_is_not_left(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root sees what others use")
    for name in ("psm_used", "psm_left", "vllm_dist_left", "of-somebody-else"):
        (tmp_path / name).write_bytes(b"x" * 2**20)
    with open(tmp_path / "psm_used", "r+b") as f, mmap.mmap(f.fileno(), 0):
        assert leftovers.segments(str(tmp_path)) == [
            f"shared memory of root in {tmp_path}, 2 MiB that nobody uses: vllm_dist_left, psm_left"
        ]


def test_what_survives_kill_is_given_back(monkeypatch):
    """A process in state D can't be made at will, so here is a group that stays whatever it is sent."""
    monkeypatch.setattr(stopping, "KILL_BOUND", 0.1)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    actions, survivors = stopping.stop(lambda: [gone.pid], lambda pids: "asked", 0.2)
    assert survivors == [gone.pid]
    assert [action.split(" to ")[0] for action in actions] == ["asked", "sent TERM again", "sent KILL"]

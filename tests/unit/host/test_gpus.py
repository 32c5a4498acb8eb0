"""GPUs as nvidia-smi tells of them: recorded words (see nvidia-smi/README.md), and a real program that fails or hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import gpus

SAID = Path(__file__).with_name("nvidia-smi")


@pytest.fixture
def tool(tmp_path):
    """A program in nvidia-smi's place, which says what a host's says."""

    def make(script: str) -> str:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def says(host: str) -> str:
        return make(
            f'case "$1" in --query-gpu=*) cat "{SAID / host}/gpus" ;; '
            f'--query-compute-apps=*) cat "{SAID / host}/processes" ;; -L) cat "{SAID / host}/list" ;; esac'
        )

    says.make = make
    return says


def test_two_gpus_and_who_uses_them(tool):
    one, two = gpus.ask(tool("two-gpus"))
    assert (one.index, one.name, one.driver) == (0, "NVIDIA H200", "570.86.15")
    assert (one.memory_total, one.memory_used, one.memory_free) == (143771, 130244, 12912)
    assert one.processes == [
        gpus.Process(4711, "VLLM::Worker_TP0", 130230),
        gpus.Process(812, "/usr/bin/python3, with a comma", 10),
    ]
    assert (two.memory_used, two.processes, two.mig) == (4, [], [])
    assert gpus.count(tool("two-gpus")) == 2


def test_mig_devices_are_told_and_not_counted(tool):
    (gpu,) = gpus.ask(tool("mig"))
    assert gpu.mig == ["MIG-6f1f3a0e-2d0b-5f54-8d0c-6a1e2d3c4b5a", "MIG-0b1c2d3e-4f50-5162-9384-a5b6c7d8e9f0"]
    assert gpus.count(tool("mig")) is None


def test_a_directory_that_may_not_be_looked_into_holds_none(tool, tmp_path, monkeypatch):
    """Root may look anywhere, so that a file that can't be run stands for it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert gpus.ask() == []
    assert gpus.count() is None


@pytest.mark.parametrize("host", ["unified-memory", "no-permission"])
def test_what_the_driver_does_not_tell_is_not_known(tool, host):
    (gpu,) = gpus.ask(tool(host))
    assert gpu.processes[0].memory_used is None
    assert gpus.in_the_way([gpu], [99], 0) == [], "nobody knows how much of the memory is ours"


def test_an_old_driver(tool):
    (gpu,) = gpus.ask(tool("old-driver"))
    assert (gpu.driver, gpu.memory_free, gpu.mig) == ("450.119.03", 32510, [])


def test_no_gpu_is_a_fact(tool, tmp_path):
    assert gpus.ask(str(tmp_path / "nowhere")) == []
    assert gpus.count(str(tmp_path / "nowhere")) is None
    assert gpus.ask(tool("no-devices")) == []
    assert gpus.count(tool("no-devices")) == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (18, "Failed to initialize NVML: Driver/library version mismatch"),
        (4, "Failed to initialize NVML: Insufficient Permissions"),
    ],
)
def test_a_driver_in_trouble_says_why(tool, code, words):
    broken = tool.make(f'echo "{words}"; exit {code}')
    with pytest.raises(gpus.NoAnswerError, match=f"ended with {code}: .*{words[:20]}"):
        gpus.ask(broken)
    assert gpus.count(broken) is None


def test_a_tool_that_hangs_is_left_behind(tool, monkeypatch):
    monkeypatch.setattr(gpus, "PATIENCE", 0.2)
    with pytest.raises(gpus.NoAnswerError, match="gave no answer within"):
        gpus.ask(tool.make("exec sleep 600"))


@pytest.mark.parametrize(
    ("devices", "indexes"),
    [
        (None, [0, 1]),
        ("1", [1]),
        ("1, 0", [1, 0]),
        ("1,1", [1]),
        ("{uuid}", [1]),
        ("{beginning}", [1]),
        ("0,7,1", [0]),
        ("-1", []),
        ("", []),
    ],
)
def test_what_a_server_sees(tool, devices, indexes):
    """As CUDA's documentation of the variable has it."""
    found = gpus.ask(tool("two-gpus"))
    uuid = found[1].uuid
    named = devices and devices.format(uuid=uuid, beginning=uuid[:12])
    assert [gpu.index for gpu in gpus.seen(found, named)] == indexes


def test_a_mig_device_means_its_gpu(tool):
    found = gpus.ask(tool("mig"))
    assert gpus.seen(found, found[0].mig[1]) == found


def test_what_is_in_the_way(tool):
    found = gpus.ask(tool("two-gpus"))
    assert gpus.in_the_way(found, [4711], 1024) == ["GPU 0: pid 812 (/usr/bin/python3, with a comma) uses 10 MiB"]
    assert gpus.in_the_way(found, [4711, 812], 1024) == []
    assert gpus.in_the_way(found, [4711, 812], 3) == [
        "GPU 0: 4 MiB are used by processes that can't be seen from here",
        "GPU 1: 4 MiB are used by processes that can't be seen from here",
    ]

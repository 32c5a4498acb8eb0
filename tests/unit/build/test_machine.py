"""The choices that follow from what a host has."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import machine
from ansible_collections.llmops.vllm.plugins.module_utils._build.machine import GIB, Machine


@pytest.mark.parametrize(
    ("cores", "gib", "device", "jobs"),
    [
        (64, 128, "cuda", 21),  # vllm-project/vllm#8878: 64 at a time were killed here
        (16, 16, "cuda", 2),  # vllm-project/vllm#42204
        (2, 24, "cpu", 2),
        (32, 64, "cpu", 16),
        (8, 512, "auto", 8),
        (4, 2, "cuda", 1),
    ],
)
def test_as_many_compilers_as_memory_allows(cores, gib, device, jobs):
    assert machine.jobs(Machine("x86_64", cores, gib * GIB, False), device) == jobs


def test_memory_is_what_is_left_of_what_is_allowed():
    meminfo = "MemTotal:       24689764 kB\nMemFree:        1024 kB\nMemAvailable:   20971520 kB\n"
    assert machine.memory(meminfo, "max\n") == 20 * GIB
    assert machine.memory(meminfo, "") == 20 * GIB
    assert machine.memory(meminfo, f"{8 * GIB}\n") == 8 * GIB
    assert machine.memory(meminfo, f"{80 * GIB}\n") == 20 * GIB


@pytest.mark.parametrize(
    ("architecture", "wheel", "kernels"),
    [
        ("x86_64", "", "precompiled"),
        ("aarch64", "", "precompiled"),
        ("ppc64le", "", "compile"),
        ("ppc64le", "/srv/vllm-0.32.0-cp38-abi3-linux_ppc64le.whl", "precompiled"),
    ],
)
def test_no_precompiled_kernels_where_there_are_none(architecture, wheel, kernels):
    chosen, why = machine.kernels(Machine(architecture, 8, 64 * GIB, False), "precompiled", wheel)
    assert chosen == kernels
    assert bool(why) == (kernels == "compile")


@pytest.mark.parametrize(
    ("wheel", "fits"),
    [
        ("/srv/vllm-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl", True),
        ("https://host/vllm-0.32.0-cp38-abi3-manylinux_2_28_aarch64.whl?sig=1", False),
        ("/srv/vllm-0.32.0-py3-none-any.whl", True),
        ("0123456789012345678901234567890123456789", True),
    ],
)
def test_a_wheel_for_another_machine(wheel, fits):
    assert (machine.unfit(Machine("x86_64", 8, 64 * GIB, False), wheel) == "") == fits


def test_this_machine():
    here = machine.look()
    assert here.cores >= 1
    assert here.memory > 0
    assert here.architecture

"""What Ray needs is refused with its remedy where it isn't there."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import ray
from ansible_collections.llmops.vllm.plugins.module_utils._engine.arguments import Launch, faults, workers

SPECULATIVE = {"method": "dflash", "num_speculative_tokens": 7}
PLAIN = "/opt/vllm/instances/default/cache/vllm/ray"


def test_the_usual_place_is_short_enough():
    assert ray.faults(1, PLAIN, True) == []


@pytest.mark.parametrize(
    ("workers", "directory", "has_token", "said"),
    [
        (None, PLAIN, True, "Ray has to be told how many workers each host has: write the parallel sizes as numbers."),
        (1, f"{PLAIN}/22", True, "that is shorter by 2, or vllm_deployment_executor mp."),
        (1, "/opt/" + "ü" * 20, True, "has 45 bytes"),
        (1, PLAIN, False, "runs any code on its hosts: set vllm_serve_api_key, of which one is made, or vllm_deployment_ray_token"),
    ],
)  # fmt: skip
def test_what_is_lacking(workers, directory, has_token, said):
    (fault,) = ray.faults(workers, directory, has_token)
    assert said in fault


@pytest.mark.parametrize(("executor", "hosts", "count"), [("ray", 2, 3), ("mp", 2, 0), ("ray", 1, 0)])
def test_it_is_asked_only_where_ray_is_the_executor(executor, hosts, count):
    launch = Launch(
        {"tensor-parallel-size": 2, "pipeline-parallel-size": "auto"},
        SPECULATIVE,
        hosts=hosts,
        executor=executor,
        directory="/opt/" + "x" * 60,
    )
    assert len(faults(launch)) == count


def test_workers_of_a_host():
    assert workers(Launch({"tensor_parallel_size": "8", "pipeline-parallel-size": 2}, SPECULATIVE, hosts=2)) == 8
    assert workers(Launch({"tensor-parallel-size": "all"}, SPECULATIVE, hosts=2)) is None

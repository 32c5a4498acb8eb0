"""Whether the workers of a launch fit one host, or several that run one server."""

from __future__ import annotations

import re

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import parallel
from ansible_collections.llmops.vllm.plugins.module_utils._engine.arguments import NOT_HERE, Launch, faults

SPECULATIVE = {"method": "dflash", "num_speculative_tokens": 7}


def judged(args, hosts=2, executor="mp", **options):
    return faults(Launch(args, SPECULATIVE, hosts=hosts, executor=executor, **{"has_token": True, **options}))


def sizes(tensor=1, stages=1, replicas=1, **others):
    return {"tensor-parallel-size": tensor, "pipeline-parallel-size": stages, "data-parallel-size": replicas, **others}


def as_vllm_divides(world_in_replica, replicas, hosts):
    """The replicas that the ranks of a vLLM 0.32.0 start or share, after create_engine_config and ParallelConfig.nnodes_within_dp; None
    where it refuses."""
    world = world_in_replica * replicas
    if world % hosts:
        return None
    each = world // hosts
    local = max(each // world_in_replica, 1)
    groups = replicas // local
    if hosts % groups:
        return None
    within = hosts // groups
    started = [
        range(first, first + local)
        for rank in range(hosts)
        for first in [rank * each // world_in_replica]
        if rank % within == 0
    ]
    return [replica for of_host in started for replica in of_host]


@pytest.mark.parametrize("hosts", [2, 3, 4, 6])
@pytest.mark.parametrize("replicas", range(1, 13))
@pytest.mark.parametrize("world_in_replica", [1, 2, 3, 4, 8])
def test_what_vllm_divides_wholly_is_taken_and_nothing_else(world_in_replica, replicas, hosts):
    divided = as_vllm_divides(world_in_replica, replicas, hosts)
    works = divided == list(range(replicas)) and world_in_replica * replicas >= hosts
    assert (judged(sizes(world_in_replica, 1, replicas), hosts) == []) is works


def test_a_replica_that_vllm_would_forget():
    """It takes these sizes, starts four of five replicas, and the head waits for the fifth."""
    assert as_vllm_divides(2, 5, 2) == [0, 1, 2, 3]
    (fault,) = judged(sizes(2, 1, 5))
    assert (
        "data-parallel-size is 5 on 2 hosts, so that a host would have one replica and a part of another: make it"
        in fault
    )


@pytest.mark.parametrize(
    ("args", "hosts", "options", "said"),
    [
        (
            {}, 2, {}, "nothing for the second host to do: tensor-parallel-size x pipeline-parallel-size x data-parallel-size is 1 "
            "and there are 2 hosts. Raise tensor-parallel-size",
        ),
        (sizes(2), 4, {}, "There is nothing for 2 of the hosts to do"),
        (sizes(3), 2, {}, "is 3, which 2 hosts can't share evenly: make it a multiple of 2, or have another number of hosts"),
        (sizes(2, 2), 3, {}, "is 4, which 3 hosts can't share evenly"),
        (
            sizes(8, 2), 2, {"gpus": 4}, "is 16, and each of the 2 hosts takes 8 GPUs of its own. The server would see 4 here: lower them",
        ),
        (
            sizes(4), 2, {"gpus": 8, "environment": {"CUDA_VISIBLE_DEVICES": "3"}}, "The server would see 1 here (CUDA_VISIBLE_DEVICES is '3')",
        ),
        (sizes(2, **{"distributed-executor-backend": "ray"}), 2, {}, "is ray, and vllm_deployment_executor mp: leave the former out"),
        (
            sizes(2, **{"distributed-executor-backend": "mp"}), 2, {"executor": "ray"}, "is mp, and vllm_deployment_executor ray",
        ),
        (sizes(1, 1, 2, **{"data-parallel-backend": "ray"}), 2, {}, "takes no other than mp: leave it out"),
        (sizes(1, 1, 4, **{"data-parallel-size-local": 4}), 2, {}, "each of the 2 hosts has 2: leave it out"),
        (sizes(2, 1, 2, **{"data-parallel-external-lb": True}), 2, {}, "in a deployment the head alone has one: leave it out"),
        (sizes(2, 1, 2, data_parallel_start_rank=0), 2, {}, "data-parallel-start-rank gives each host an API of its own"),
        (
            sizes(2, 1, 4), 2, {"executor": "ray"},
            "over Ray the hosts share that only with data-parallel-backend ray and data-parallel-size-local 2: set that",
        ),
        (sizes(4, 1, 2), 4, {"executor": "ray"}, "share that only with data-parallel-backend ray: set that"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_remedy(args, hosts, options, said):
    (fault,) = judged(args, hosts, **options)
    assert said in fault


@pytest.mark.parametrize(
    ("args", "hosts", "options"),
    [
        (sizes(2), 2, {"gpus": 1}),
        (sizes(8, 2), 2, {"gpus": 8}),
        (sizes(1, 2), 2, {"gpus": 1}),
        (sizes(1, 1, 2), 2, {"gpus": 1}),
        (sizes(1, 1, 4, **{"data-parallel-size-local": 2, "data-parallel-external-lb": False}), 2, {}),
        (sizes(1, **{"prefill-context-parallel-size": 2}), 2, {}),
        (sizes(2, **{"distributed-executor-backend": "ray"}), 2, {"executor": "ray"}),
        (sizes(2, 1, 4, **{"data-parallel-backend": "ray", "data-parallel-size-local": "2"}), 2, {"executor": "ray"}),
        # An engine for the CPU, or words of vLLM's own: not known, so let pass.
        (sizes(4), 2, {"gpus": 1, "version": "0.32.0+cpu"}),
        (sizes("4k"), 2, {"gpus": 1}),
        # One host: replicas may be elsewhere, and are no business of this judge.
        (sizes(2, **{"data-parallel-external-lb": True}), 1, {"gpus": 2}),
        ({"tensor-parallel-size": None}, 1, {"gpus": 1}),
    ],
)  # fmt: skip
def test_what_fits_is_taken(args, hosts, options):
    assert judged(args, hosts, **options) == []


def test_the_context_is_a_size_too():
    (fault,) = judged(sizes(1, **{"prefill-context-parallel-size": 3}))
    assert (
        "tensor-parallel-size x pipeline-parallel-size x prefill-context-parallel-size x data-parallel-size is 3"
        in fault
    )


def test_the_drafter_is_divided_over_all_hosts_or_not_at_all():
    speculative = {**SPECULATIVE, "draft_tensor_parallel_size": 2}
    (fault,) = faults(Launch(sizes(4), speculative, hosts=2))
    assert "draft_tensor_parallel_size is 2: it can only be 1 or the target's 4" in fault


def test_each_remedy_can_be_told_from_its_cause():
    """The doctor divides them."""
    for fault in [*judged({}), *judged(sizes(3)), *judged(sizes(2, 1, 5)), *judged(sizes(8), gpus=1)]:
        assert re.search(r"[:.] [A-Za-z]", fault)
    assert all(name in NOT_HERE for name in ("nnodes", "node-rank", "master-addr", "master-port", "headless"))
    assert parallel.number(True) is None

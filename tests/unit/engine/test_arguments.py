"""What is known to be wrong with a launch is said, with its remedy; what isn't known is let pass."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.filter.flags import flags
from ansible_collections.llmops.vllm.plugins.module_utils._engine.arguments import Launch, faults, is_loopback, needed

SPECULATIVE = {"method": "dflash", "model": '/models/it\'s a "draft" ü', "num_speculative_tokens": 7}
MIXED = {"block_size": 8, "layer_types": ["sliding_attention", "full_attention"]}


def judged(args=None, speculative=None, **options):
    speculative = {**SPECULATIVE, **(speculative or {})}
    args = args or {}
    argv = ["vllm", "serve", "/models/target", *flags({"speculative-config": speculative, **args})]
    return faults(Launch(args, speculative, argv, **{"drafter": {"block_size": 8}, **options}))


def test_nothing_is_wrong_with_what_runs():
    assert judged({"tensor-parallel-size": 2, "max-num-seqs": 64, "max-num-batched-tokens": 32768}, gpus=2) == []


def test_what_is_not_known_is_let_pass():
    """No GPU to be counted, no drafter config to be read, defaults that depend on the hardware, numbers in words of vLLM's own."""
    assert judged({"tensor-parallel-size": 8, "max-num-batched-tokens": 64}, gpus=None, drafter={}) == []
    assert judged({"max-num-batched-tokens": "2k", "max-num-seqs": 256}) == []


def test_gpus_are_nothing_to_an_engine_for_the_cpu():
    assert judged({"tensor-parallel-size": 2}, gpus=1, version="0.32.0+cpu") == []
    assert judged({"tensor-parallel-size": 2}, gpus=1, version="0.32.0") != []


@pytest.mark.parametrize(
    ("args", "speculative", "options", "said"),
    [
        ({"port": 1}, {}, {}, "vllm_serve_args holds port. Set vllm_serve_port instead"),
        ({"nnodes": 2}, {}, {}, "vllm_serve_args holds nnodes. Have the inventory say it: vllm_deployment is the group"),
        ({"node_rank": 1}, {}, {}, "vllm_serve_args holds node-rank. Have the inventory say it: vllm_deployment"),
        ({"headless": True}, {}, {}, "vllm_serve_args holds headless. Have the inventory say it: vllm_deployment"),
        ({"master-addr": "10.0.0.1"}, {}, {}, "Have the inventory say it: vllm_deployment is the group"),
        ({"master-port": 1}, {}, {}, "and vllm_deployment_port is where they meet"),
        ({"ssl-certfile": "/etc/x.pem"}, {}, {}, "measures it speaks http: put what speaks https before it"),
        ({"max-num-seqs": 4, "max_num_seqs": 8}, {}, {}, "max-num-seqs and max_num_seqs are one flag"),
        ({"max-num-seqs": 256, "max-num-batched-tokens": 2047}, {}, {}, "needs 2048: raise it, or lower max-num-seqs to 255"),
        ({"tensor-parallel-size": 4}, {}, {"gpus": 2}, "take 4 GPUs, and the server would see 2: lower them"),
        ({"tensor-parallel-size": 2, "pipeline-parallel-size": 2}, {}, {"gpus": 3}, "take 4 GPUs"),
        (
            {"tensor-parallel-size": 2}, {}, {"gpus": 8, "environment": {"CUDA_VISIBLE_DEVICES": "3"}},
            "the server would see 1 (CUDA_VISIBLE_DEVICES is '3')",
        ),
        ({"tensor-parallel-size": 4}, {"draft_tensor_parallel_size": 2}, {}, "can only be 1 or the target's 4"),
        ({}, {"num_speculative_tokens": 8}, {}, "the drafter's block_size 8 gives no more than 7: set it to 7"),
        ({}, {"num_speculative_tokens": None}, {}, "is not known. Run the role vllm_drafter before"),
        ({}, {"num_speculative_tokens": "many"}, {}, "num_speculative_tokens is 'many'"),
        ({}, {"num_speculative_tokens": 0}, {}, "a whole number of at least 1"),
        ({"compilation-config": "{'level': 3}"}, {}, {}, "compilation-config is meant as JSON and is none"),
        (
            {}, {}, {"drafter": MIXED, "version": "0.32.0", "environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
            "only the V2 model runner can run, and VLLM_USE_V2_MODEL_RUNNER is 0",
        ),
        (
            {}, {}, {"timeout": 1800, "environment": {"VLLM_ENGINE_READY_TIMEOUT_S": "600"}},
            "VLLM_ENGINE_READY_TIMEOUT_S is 600: the engine would give up before vllm_serve_timeout, 1800 s",
        ),
        ({}, {}, {"environment": {"VLLM_ENGINE_READY_TIMEOUT_S": "soon"}}, "is 'soon': it must be a whole number"),
        ({}, {}, {"host": "0.0.0.0"}, "vllm_serve_host 0.0.0.0 opens the server to the network"),
        ({}, {}, {"host": "::"}, "vllm_serve_host :: opens the server to the network"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_remedy(args, speculative, options, said):
    (fault,) = judged(args, speculative, **options)
    assert said in fault


def test_all_faults_are_told_at_once():
    assert len(judged({"port": 1, "host": "::"}, {"num_speculative_tokens": 9}, host="0.0.0.0")) == 4


def test_one_sequence_has_to_fit():
    assert judged({"max-num-batched-tokens": 8}) == []
    (fault,) = judged({"max-num-batched-tokens": 0})
    assert "max-num-batched-tokens is 0, and one sequence with its 7 drafted tokens needs 8" in fault


@pytest.mark.parametrize(
    ("budget", "sequences", "fits"), [(2048, 256, True), (2047, 256, False), (8, 1, True), (7, 1, False)]
)
def test_the_token_budget_at_its_edge(budget, sequences, fits):
    assert (judged({"max-num-batched-tokens": budget, "max-num-seqs": sequences}) == []) is fits


@pytest.mark.parametrize(("host", "loopback"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
                                                ("0.0.0.0", False), ("10.0.0.7", False), ("gpu1", False)])  # fmt: skip
def test_what_the_network_reaches(host, loopback):
    assert is_loopback(host) is loopback
    assert (judged(host=host) == []) is loopback
    assert judged(host=host, has_key=True) == []


@pytest.mark.parametrize(("port", "right"), [(1, True), (65535, True), (0, False), (65536, False), (-1, False)])
def test_a_port_is_a_number_of_16_bits(port, right):
    assert (judged(port=port) == []) is right


def test_json_that_does_not_arrive_is_noticed():
    (fault,) = faults(Launch({}, SPECULATIVE, ["vllm", "serve", "--speculative-config={method: dflash}"]))
    assert "speculative-config would not reach vLLM as it was given" in fault


@pytest.mark.parametrize(
    ("drafter", "version", "wanted"),
    [
        (MIXED, "0.32.0", {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
        (MIXED, "0.26.1.dev3+gabc", {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
        (MIXED, "0.25.0", {}),
        (MIXED, "", {}),
        ({"layer_types": ["sliding_attention"] * 3}, "0.32.0", {}),
        ({"layer_types": None}, "0.32.0", {}),
        ({}, "0.32.0", {}),
    ],
)
def test_a_mixed_drafter_gets_the_runner_it_needs(drafter, version, wanted):
    assert needed(Launch({}, SPECULATIVE, drafter=drafter, version=version)) == wanted

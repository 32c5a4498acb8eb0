"""On which GPUs a server runs, as which rank, with whom; and what of that can't be known."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import placement
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.cmdline import parse
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.placement import Gpus
from ansible_collections.llmops.vllm.plugins.module_utils._host import gpus, ports


def gpu(index: int, *processes: tuple[int, int | None]) -> gpus.Gpu:
    running = [gpus.Process(pid, "VLLM::Worker", used) for pid, used in processes]
    return gpus.Gpu(index, f"GPU-{index}", "NVIDIA H200", "570", 143771, 130244, 12912, [], running)


TWO = Gpus([gpu(0, (11, 130000), (99, 500)), gpu(1, (12, 130000), (11, 40)), gpu(2, (99, 500))])


def placed(words: str, environment=None, pids=(10, 11, 12), host=TWO, peers=()) -> dict[str, object]:
    return placement.of(parse(words.split())[1], {} if environment is None else environment, pids, host, peers)


def test_two_gpus_of_a_host():
    told = placed("m -tp 2", {"CUDA_VISIBLE_DEVICES": "0,1", "EDITOR": "vi"}, peers=["198.51.100.7"])
    assert told == {
        "visible": {"CUDA_VISIBLE_DEVICES": "0,1"},
        "gpus": [
            {"index": 0, "uuid": "GPU-0", "name": "NVIDIA H200", "memory_used": 130000},
            {"index": 1, "uuid": "GPU-1", "name": "NVIDIA H200", "memory_used": 130040},
        ],
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "nnodes": 1,
        "node_rank": None,
        "data_parallel_rank": None,
        "head": "",
        "backend": "",
        "addresses": {},
        "peers": [],
        "unknown": [],
    }


def test_a_rank_of_several_hosts():
    told = placed(
        "m --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 -pp 2 --headless", {"VLLM_HOST_IP": "10.0.0.2"}, peers=["10.0.0.1"]
    )  # fmt: skip
    assert (told["nnodes"], told["node_rank"], told["head"], told["pipeline_parallel_size"]) == (
        2,
        1,
        "10.0.0.1:29501",
        2,
    )
    assert (told["peers"], told["addresses"], told["unknown"]) == (["10.0.0.1"], {"VLLM_HOST_IP": "10.0.0.2"}, [])


def test_a_part_of_several_in_data_parallel():
    told = placed("m -dp 4 -dpl 2 -dpr 2 -dpa 10.0.0.1 --headless", peers=["10.0.0.1"])
    assert (told["data_parallel_size"], told["data_parallel_rank"], told["head"]) == (4, 2, "10.0.0.1")


@pytest.mark.parametrize(
    ("words", "more", "unknown"),
    [
        ("m", {"host": Gpus(why="nvidia-smi -L gave no answer within 20 s: the driver hangs.")}, "which GPUs it uses: nvidia-smi -L gave no"),
        ("m", {"pids": (7,)}, "which GPUs it uses: nvidia-smi names none of its processes"),
        ("m --nnodes 2", {}, "its peers: no connection"),
        ("m --distributed-executor-backend ray", {"peers": ["10.0.0.3"]}, "which nodes Ray has put its workers on"),
    ],
)  # fmt: skip
def test_what_can_not_be_known_is_said(words, more, unknown):
    (said,) = placed(words, **more)["unknown"]
    assert said.startswith(unknown)


def test_what_can_not_be_read_is_not_guessed():
    told = placement.of({}, None, (7,), Gpus(why="there is none"), ())
    assert (told["visible"], told["gpus"]) == ({}, None)
    assert told["unknown"][0] == "which GPUs it was given, as its environment can't be read"


ROWS = """
0: 0100007F:1F40 0200000A:C350 01 00000000:00000000 00:00000000 00000000 0 0 1 1
1: 0100000A:739D 0200000A:C351 01 00000000:00000000 00:00000000 00000000 0 0 2 1
2: 0100000A:1F40 0300000A:C352 01 00000000:00000000 00:00000000 00000000 0 0 3 1
3: 0100000A:739E 0100000A:C353 01 00000000:00000000 00:00000000 00000000 0 0 4 1
4: 0100000A:739F 0500000A:C354 06 00000000:00000000 00:00000000 00000000 0 0 5 1
5: 0000000000000000FFFF00000100000A:73A0 0000000000000000FFFF00000600000A:C355 01 00000000:00000000 00:00000000 00000000 0 0 6 1
6: B80D01200000000000000000010000000:73A1 B80D0120000000000000000002000000:C356 01 00000000:00000000 00:00000000 00000000 0 0 7 1
7: 0100000A:73A2 0700000A:C357 01 00000000:00000000 00:00000000 00000000 0 0 8 1
"""


def test_whom_a_process_is_connected_with():
    """Not its clients at port 8000, not itself, not who has gone, not the connections of others."""
    rows = [line.split() for line in ROWS.strip().splitlines()]
    mine = {f"socket:[{inode}]" for inode in range(2, 8)}
    assert ports.strangers(rows, mine, besides=(8000,)) == {"10.0.0.2", "10.0.0.6", "2001:db8::2"}

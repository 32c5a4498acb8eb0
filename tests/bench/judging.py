"""c. How long a drafter's config is judged against the weights, by the number of their shards."""

from __future__ import annotations

import json
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyperf

from ansible_collections.llmops.vllm.tests.bench.plays import run
from ansible_collections.llmops.vllm.tests.bench.results import Result
from ansible_collections.llmops.vllm.tests.fleet.serving import BUILDS, PAIR

SHARDS = (1, 20, 200)
OURS = """
import sys
from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking
asked = {name: option.get("default") for name, option in asking.ARGUMENTS.items()}
judged = asking.judge({**asked, "path": sys.argv[1], "target": sys.argv[2]}, mended=False)
assert judged.findings
"""
THEIRS = """
import glob, json, sys
from safetensors import safe_open
for directory in sys.argv[1:]:
    json.load(open(directory + "/config.json"))
    for shard in sorted(glob.glob(directory + "/*.safetensors")):
        with safe_open(shard, "numpy") as f:
            {name: f.get_slice(name).get_shape() for name in f.keys()}
"""


def measure() -> Iterator[Result]:
    engine = sorted(BUILDS.glob("*/build.json"))[-1].resolve().parent / "venv/bin/python"
    rows = {}
    with tempfile.TemporaryDirectory() as home:
        for number in SHARDS:
            places = [str(sharded(Path(home) / str(number), number)), str(PAIR / "target")]
            ours = seconds(home, sys.executable, OURS, places)
            theirs = seconds(home, str(engine), THEIRS, places)
            rows[f"{number} shard{'s' if number > 1 else ''}"] = (ours * 1000, theirs * 1000)
    yield Result(
        "c-judging",
        "Judging a drafter of many shards",
        "Whole processes, the median of pyperf's. Beside it a script that only reads both configs and, by the package safetensors, the shapes of "
        "all tensors, and judges nothing.",
        ("ms", "ms of safetensors"),
        rows,
    )


def seconds(home: str, python: str, script: str, words: list[str]) -> float:
    """Of the whole process, the median."""
    file, out = Path(home) / "script.py", Path(home) / "pyperf.json"
    file.write_text(script)
    out.unlink(missing_ok=True)
    options = ["--quiet", "--processes=5", "--values=2", "--warmups=1", "--inherit-environ=PYTHONPATH"]
    run([sys.executable, "-m", "pyperf", "command", *options, f"--output={out}", "--", python, str(file), *words])
    return pyperf.Benchmark.load(str(out)).median()


def sharded(place: Path, number: int) -> Path:
    """The pair's drafter in so many files: its own, others of 1 MB with a tensor each, and an index."""
    place.mkdir()
    shutil.copy(PAIR / "drafter/config.json", place)
    own = (PAIR / "drafter/model.safetensors").read_bytes()
    length = struct.unpack_from("<Q", own)[0]
    names = [name for name in json.loads(own[8 : 8 + length]) if name != "__metadata__"]
    shards = [f"model-{n + 1:05}-of-{number:05}.safetensors" for n in range(number)]
    (place / shards[0]).write_bytes(own)
    where = dict.fromkeys(names, shards[0])
    for shard in shards[1:]:
        size, name = 1 << 20, f"padding.{shard}"
        header = json.dumps({name: {"dtype": "F16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
        with (place / shard).open("wb") as f:
            f.write(struct.pack("<Q", len(header)) + header)
            f.truncate(8 + len(header) + size)
        where[name] = shard
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return place

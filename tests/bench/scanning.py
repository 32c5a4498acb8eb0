"""c. How fast a log is judged, and in how much memory, against grep with as many patterns."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.llmops.vllm.tests.bench.results import CLONE, Result

LOGS = CLONE / "tests/corpus/logs"
GIGABYTES = 0.5
OURS = """
import json, sys, time
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Process
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker

began = time.perf_counter()
Wait(Follower(sys.argv[1]), Judge(Profile()), Process(), Waker(), Limits(0)).run()
seconds = time.perf_counter() - began
# Not ru_maxrss, which counts what the process held that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(json.dumps([seconds, int(peak.split()[1]) / 1024]))
"""


def kinds() -> dict[str, tuple[bytes, bytes]]:
    """Of each kind of log how it begins, and what follows over and over, from the lines of real ones."""
    start, served = ((LOGS / name).read_bytes() for name in ("ready.log", "accepting.log"))
    words = (b"POST", b"loggers.py", b"metrics.py")
    work = b"".join(line for line in served.splitlines(keepends=True) if any(word in line for word in words))
    return {
        "a server at work": (start, work),
        "the same, never ready": (b"", work),
        "starts, over and over": (b"", start),
        "failing starts, over and over": (b"", (LOGS / "fc-shape.log").read_bytes()),
    }


def measure() -> Iterator[Result]:
    rows = {}
    for kind, (first, block) in kinds().items():
        with tempfile.NamedTemporaryFile(suffix=".log") as f:
            _write(f.name, first, block, int(GIGABYTES * 1e9))
            for _unused in range(2):  # the first run brings the file into memory
                seconds, memory = _ours(f.name)
            rows[kind] = (GIGABYTES * 1000 / seconds, memory, GIGABYTES * 1000 / _grep(f.name))
    yield Result(
        "c-scanning",
        "Judging a log from its first byte to its last",
        f"{GIGABYTES * 1000:.0f} MB of each kind, by a process of its own with the whole profile: stages, causes, tracebacks, facts, life of the "
        "process. Beside it GNU grep, for one line that isn't there and in the same encoding: the least that any way has to do.",
        ("MB/s", "MiB of memory", "MB/s of grep"),
        rows,
    )


def _ours(path: str) -> tuple[float, float]:
    command = [sys.executable, "-c", OURS, path]
    return tuple(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def _grep(path: str) -> float:
    began = time.perf_counter()
    subprocess.run(["grep", "-cE", "no such line|nor (this|that) one", path], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def _write(path: str, first: bytes, block: bytes, size: int) -> None:
    block *= (1 << 20) // len(block)
    with Path(path).open("wb") as f:
        f.write(first)
        while f.tell() < size:
            f.write(block)

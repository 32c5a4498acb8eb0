"""How fast a gigabyte of log is judged, and in how much memory.

    log_wait_speed.py [--folder DIR] [--gigabytes N]

Four kinds of log: a server at work (metrics and access lines), the same without its start, and starts or failing starts over and
over again. Each is judged by a process of its own, with the whole profile, from the first byte to the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CLONE = Path(__file__).parents[2]
LOGS = CLONE / "tests/corpus/logs"
TASK = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[2])
from ansible_collections.llmops.vllm.plugins.module_utils._logs import outcome
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Process
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker
began = time.perf_counter()
wait = Wait(Follower(sys.argv[1]), Judge(Profile()), Process(), Waker(), Limits(0))
told = outcome.outcome(wait.run(), wait)
took, cpu = time.perf_counter() - began, time.process_time()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"verdict": told["verdict"], "lines": told["lines"], "bytes": told["bytes"], "took": took, "cpu": cpu, "memory": memory}))
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


def write(path: str, first: bytes, block: bytes, size: int) -> None:
    block *= (1 << 20) // len(block)
    with open(path, "wb") as f:
        f.write(first)
        while f.tell() < size:
            f.write(block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--gigabytes", type=float, default=1)
    arguments = parser.parse_args()
    for kind, (first, block) in kinds().items():
        with tempfile.NamedTemporaryFile(dir=arguments.folder, suffix=".log") as f:
            write(f.name, first, block, int(arguments.gigabytes * 1e9))
            for _unused in range(2):  # the first run brings the file into memory
                command = [sys.executable, "-c", TASK, f.name, str(CLONE / ".collections")]
                told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        print(
            f"{kind:30} {told['bytes'] / 1e6 / told['took']:5.0f} MB/s {told['took']:6.2f} s (processor {told['cpu']:5.2f} s) {told['memory']:6.1f} MiB"
            f"  {told['lines']} lines, {told['verdict']}",
            flush=True,
        )


if __name__ == "__main__":
    main()

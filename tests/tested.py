"""The record of what was run for real: tests that drive real engines, hosts and browsers write it when they are run with --record-tested.

docs/tested.md is made of it, by `make pages`.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
import itertools
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CLONE = Path(__file__).parents[1]
RECORD = CLONE / "tests/tested.json"
REAL = ("tests/e2e/", "tests/fleet/", "tests/browser/", "tests/integration/", "tests/world/")
"""Where the tests are that are worth a record. A unit test runs anywhere in a moment."""


@dataclasses.dataclass(frozen=True)
class Never:
    """what: was never run for real; instead: what was; where: the tests that do it; sign: a machine that had it would say so."""

    what: str
    instead: str
    where: tuple[str, ...]
    sign: str = ""


NEVER = (
    Never(
        "A GPU",
        "The CPU build of the same vLLM serves a real DFlash pair. What `nvidia-smi` says is taken from recorded answers.",
        ("tests/e2e/test_site.py", "tests/unit/host/test_gpus.py"),
        sign="NVIDIA",
    ),
    Never(
        "A build that compiles CUDA kernels",
        "A commit is built from source with the kernels of a CPU wheel. Compilers fail in words that were seen elsewhere.",
        ("tests/e2e/test_build.py", "tests/unit/build/test_causes.py"),
    ),
    Never(
        "The public Hugging Face hub",
        "A mirror on this machine speaks its protocol.",
        ("tests/e2e/test_models.py", "tests/fleet/test_models.py"),
    ),
    Never(
        "A real AWX",
        "The playbooks run by ansible-runner, which is what it runs; its objects are held against the documentation of awx.awx.",
        ("tests/world/test_runner.py", "tests/world/test_awx.py"),
    ),
    Never("A model of more than a few megabytes", "A pair of 2.5 MB, trained for these tests.", ("tests/e2e/test_compare.py",)),
    Never(
        "Hosts that are machines of their own",
        "Containers with systemd, SSH and a network of their own, all on one kernel.",
        ("tests/fleet/test_fleet.py",),
    ),
)  # fmt: skip


class Recorder:
    """A plugin of pytest that writes down how each test ended, where and when. One that was skipped changes nothing."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}
        self.where = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine()}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.nodeid.startswith(REAL):
            return
        seen = self.seen.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        seen["seconds"] += report.duration
        if seen["outcome"] != "failed" and report.outcome != "passed":
            seen["outcome"] = report.outcome
        # At once, so that a session that is killed leaves what it came to.
        if report.when == "teardown" and seen["outcome"] != "skipped":
            write({**read(), report.nodeid: {**seen, "seconds": round(seen["seconds"], 1), **self.where}})


def read() -> dict[str, dict[str, Any]]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def write(record: dict[str, dict[str, Any]]) -> None:
    """What is no test any more is dropped."""
    kept = {name: record[name] for name in record if is_there(name)}
    RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def is_there(name: str) -> bool:
    """Whether a test that a record names exists, whatever its parameters."""
    file, _unused, function = name.partition("::")
    path = CLONE / file
    return path.exists() and function.partition("[")[0] in _functions(ast.parse(path.read_text()).body)


def _functions(body: Iterable[ast.stmt], within: str = "") -> set[str]:
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.add(within + node.name)
        elif isinstance(node, ast.ClassDef):
            found |= _functions(node.body, f"{within}{node.name}::")
    return found


def commit() -> str:
    """The commit, with a plus if the tree was not as committed."""

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], cwd=CLONE, text=True, capture_output=True, check=True).stdout.strip()

    return git("rev-parse", "--short=9", "HEAD") + (
        "+" if git("status", "--porcelain", "-uno", ".", ":!tests/tested.json") else ""
    )


def machine() -> str:
    """In words, without its name."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = platform.freedesktop_os_release()
    gpus = "no GPU"
    if shutil.which("nvidia-smi"):
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], text=True, capture_output=True, check=False
        )
        gpus = ", ".join(asked.stdout.split("\n")[:-1]) if asked.returncode == 0 else gpus
    return (
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
        f"{system.get('NAME', 'Linux')} {system.get('VERSION_ID', '')}, Python {platform.python_version()}, {gpus}"
    )


def page() -> str:
    """docs/tested.md."""
    record = read()
    lines = [
        "# What was tested for real, and what never was",
        "",
        "Unit tests run in a moment, anywhere, and say little about hosts. These tests drive the real engine, real hosts and a real browser.",
        "They wrote this page themselves, each when it was last run with `--record-tested`; `make tested` runs them all so.",
        "",
        "## Never",
        "",
        *(f"- **{never.what}.** {never.instead} ({', '.join(map(_link, never.where))})" for never in NEVER),
        "",
        "## Run",
        "",
        "| tests | passed | failed | minutes | last run |",
        "|---|---|---|---|---|",
    ]
    files = sorted({name.partition("::")[0] for name in record})
    for file in files:
        those = [told for name, told in record.items() if name.startswith(f"{file}::")]
        passed = sum(told["outcome"] == "passed" for told in those)
        minutes = sum(told["seconds"] for told in those) / 60
        last = max(told["date"] for told in those)
        lines.append(f"| {_link(file)} | {passed} | {len(those) - passed} | {minutes:.1f} | {last} |")
    for where in sorted({told["machine"] for told in record.values()}):
        lines += ["", f"On {where}:", ""]
        for file in files:
            those = {n: t for n, t in record.items() if n.startswith(f"{file}::") and t["machine"] == where}
            if those:
                lines += [f"### {Path(file).stem.removeprefix('test_').replace('_', ' ')}: {told_by(file)}", ""]
                lines += _told(those)
                lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def told_by(file: str) -> str:
    """The first sentence of a file of tests."""
    text = ast.get_docstring(ast.parse((CLONE / file).read_text())) or "its tests"
    return text.split("\n")[0].rstrip(".:")


def _link(file: str) -> str:
    return f"[{file.removeprefix('tests/')}](../{file})"


def _told(those: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each test. What one was done with is only told where it failed."""
    lines = []
    for test, group in itertools.groupby(those, lambda name: name.partition("[")[0]):
        names = list(group)
        failed = [name for name in names if those[name]["outcome"] != "passed"]
        words = test.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        ways = f", {len(names)} ways" if len(names) > 1 else ""
        seconds = sum(those[name]["seconds"] for name in names)
        last = max((those[name] for name in names), key=lambda told: told["date"])
        lines.append(f"- {words}{ways}: {seconds:.0f} s, {last['date']}, `{last['commit']}`")
        lines += [
            f"    - **failed**{': ' if '[' in name else ''}{name.partition('[')[2].rstrip(']')}" for name in failed
        ]
    return lines

"""What a benchmark came to, and on what machine. results.json holds the last of each; docs/benchmarks.md is made of nothing else."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

CLONE = Path(__file__).parents[2]
STORE = Path(__file__).with_name("results.json")


@dataclasses.dataclass(frozen=True)
class Target:
    """says: the promise, in words. figure has to be at most limit, or at least that if `least`."""

    says: str
    figure: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.limit if self.least else self.figure <= self.limit


@dataclasses.dataclass(frozen=True)
class Result:
    """One table. rows: of each way its figures, ours first. compared: the column that is quoted as a ratio to ours; none if there is no other way."""

    name: str
    title: str
    how: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | str]]
    compared: str = ""
    targets: Sequence[Target] = ()


def keep(result: Result) -> None:
    """Beside the results of the other benchmarks, with the machine that it was measured on."""
    stored = load()
    stored[result.name] = {**dataclasses.asdict(result), "measured": machine()}
    STORE.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


def load() -> dict[str, Any]:
    return json.loads(STORE.read_text()) if STORE.exists() else {}


def machine() -> dict[str, str]:
    cpu = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=CLONE, capture_output=True, text=True, check=True
    ).stdout.strip()
    return {
        "on": f"{os.cpu_count()} cores of {cpu.partition(':')[2].strip()}, {memory:.0f} GiB, Linux {platform.release()}",
        "with": f"Python {platform.python_version()}, ansible-core {version('ansible-core')}",
        "commit": commit,
        "day": datetime.date.today().isoformat(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }

"""Fixtures, and a word about what this machine has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
import machine

MATRIX = yaml.safe_load(Path(__file__).with_name("matrix.yml").read_text())
EVERY = sorted(
    {version for row in MATRIX["controllers"] for version in row["pythons"]} | set(MATRIX["hosts"]),
    key=lambda version: int(version.partition(".")[2]),
)


def pytest_report_header():
    lacking = [version for version in EVERY if not machine.python(version)]
    return [f"not on this machine, so not tried: Python {', '.join(lacking)}"] if lacking else []


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A real copy of the collection."""
    return machine.copy(tmp_path_factory.mktemp("checkout"))


def galaxy(*words: object, place: Path) -> None:
    """ansible-galaxy collection, that knows of no other collections."""
    command = [str(Path(sys.executable).with_name("ansible-galaxy")), "collection", *map(str, words)]
    own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(command, cwd=place, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def tarball(checkout, tmp_path_factory):
    place = tmp_path_factory.mktemp("built")
    galaxy("build", "--output-path", place, place=checkout)
    (built,) = place.iterdir()
    return built


@pytest.fixture(scope="session")
def collections(tarball, tmp_path_factory):
    """Where the tarball was installed, and nothing else."""
    place = tmp_path_factory.mktemp("installed")
    galaxy("install", tarball, "--collections-path", place, place=place)
    return place

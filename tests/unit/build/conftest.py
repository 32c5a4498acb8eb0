from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import installed, proof
from ansible_collections.llmops.vllm.tests.unit.build.standin import PULL, Repository

CLONE = Path(__file__).parents[3]
HOST = ("files", "locks", "owners", "programs", "secrets")
INSTALL = CLONE / "roles/vllm_build/files/install.py"


class Home:
    """A host's vllm_home, in which the real installer works as its own process, as on a host."""

    def __init__(self, path: Path, repository: Repository) -> None:
        self.path = path
        self.repository = repository

    def request(self, commit: str, means: dict | None = None, **wanted: object) -> Path:
        """Lay down what the role lays down; the build's directory."""
        name = f"{commit[:12]}-{abs(hash(str(sorted(wanted.items())))) % 10**8}"
        directory = self.path / "builds" / name
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(INSTALL, directory)
        utils = CLONE / "plugins/module_utils"
        parts = [*sorted((utils / "_build").glob("*.py")), *(utils / f"_host/{name}.py" for name in HOST)]
        (directory / "code.json").write_text(json.dumps({str(p.relative_to(CLONE)): p.read_text() for p in parts}))
        all_wanted = {"mode": "git", "python": sys.executable, "commit": commit, "kernels": "compile", "device": "cpu"}
        all_wanted.update({"layer": str(self.path), **wanted})
        all_means = {"home": str(self.path), "repo": self.repository.url, "ref": PULL, "offline": True, **(means or {})}
        request = {"id": name, "wanted": all_wanted, "means": all_means}
        (directory / "request.json").write_text(json.dumps(request))
        return directory

    def start(self, directory: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, directory / "install.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull},
        )

    def build(self, commit: str, means: dict | None = None, **wanted: object) -> tuple[str, Path]:
        """Run the installer to its end: what it said, and the build's directory."""
        directory = self.request(commit, means, **wanted)
        output = self.start(directory).communicate()[0]
        print(output)
        return output, directory


def judged(directory: Path, look=proof.quick) -> list[str]:
    """The keys of what speaks against a build."""
    found = installed.look(str(directory / "venv"))
    return [finding.key for finding in look(found, proof.Wanted(stamp=str(directory / "build.json")))]


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("upstream") / "vllm")


@pytest.fixture
def home(tmp_path, repository):
    return Home(tmp_path / "home", repository)


@pytest.fixture(scope="session")
def whole(tmp_path_factory, repository):
    """A whole build, not to be changed."""
    output, directory = Home(tmp_path_factory.mktemp("whole"), repository).build(repository.head)
    assert output.splitlines()[-1].startswith("INSTALLED vLLM 0.32.1.dev2+g"), output
    return directory


@pytest.fixture
def build(whole, tmp_path):
    """A copy of it, to be damaged."""
    copy = tmp_path / whole.name
    shutil.copytree(whole, copy, symlinks=True)
    return copy

"""Every supported ansible-core with the Pythons that it runs on, and the modules on every Python that a managed host may have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import machine
import plays
import pytest
import yaml

MATRIX = yaml.safe_load(Path(__file__).with_name("matrix.yml").read_text())
HAD = {row["core"]: [version for version in row["pythons"] if machine.python(version)] for row in MATRIX["controllers"]}
OFTEN = {
    row["core"]: row["often"] if row["often"] in HAD[row["core"]] else HAD[row["core"]][-1]
    for row in MATRIX["controllers"]
    if HAD[row["core"]]
}
ROWS = [
    pytest.param(core, version, marks=[] if version == OFTEN[core] else pytest.mark.long, id=f"{core}-python{version}")
    for core, versions in HAD.items()
    for version in versions
]
HOSTS = [version for version in MATRIX["hosts"] if machine.python(version)]
# Each that may be imported there; a job of the host (client.py) imports what its own venv has.
IMPORTS = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
count = 0
for place in ("module_utils", "modules"):
    for file in sorted((root / "plugins" / place).rglob("*.py")):
        importlib.import_module("ansible_collections.llmops.vllm." + str(file.relative_to(root))[:-3].replace("/", "."))
        count += 1
print(count)
"""


def test_this_python_has_a_row():
    assert any(machine.here() in versions for versions in HAD.values())
    assert machine.here() in HOSTS


@pytest.mark.parametrize(("core", "python"), ROWS)
def test_a_controller(core, python, collections, tmp_path):
    bin = machine.venv(f"core-{core}", python, [f"ansible-core~={core}.0", "pytest"])

    parsed = plays.play(
        bin,
        collections,
        tmp_path,
        "--syntax-check",
        "-i",
        "localhost,",
        *(f"llmops.vllm.{name}" for name in plays.PLAYBOOKS),
    )
    assert parsed.returncode == 0
    assert plays.warnings(parsed.stdout) == []

    # Most modules, filters and specifications in one play; then what needs no engine, for real.
    hosts = plays.inventory(tmp_path, {"host": sys.executable})
    dry = plays.play(bin, collections, tmp_path, "-i", hosts, "llmops.vllm.site", "--check", "--diff")
    assert dry.returncode == 0
    assert plays.warnings(dry.stdout) == []
    assert '\\"num_speculative_tokens\\": 7' in dry.stdout or '"num_speculative_tokens": 7' in dry.stdout, (
        "a number stays one"
    )
    assert not (tmp_path / "host").exists()
    for name in ("doctor", "status"):
        done = plays.play(bin, collections, tmp_path, "-i", hosts, f"llmops.vllm.{name}")
        assert done.returncode == 0
        assert plays.warnings(done.stdout) == []

    tried = [
        "tests/unit/filter",
        *(f"tests/plays/test_{name}.py" for name in ("build_inputs", "launch", "misspelt")),
    ]
    addopts = "addopts=--import-mode=importlib -p no:cacheprovider"
    done = subprocess.run(
        [str(bin / "python"), "-m", "pytest", "-q", "-o", addopts, *tried],
        cwd=machine.CLONE,
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", HOSTS)
def test_modules_are_imported_by_the_python_of_a_host(version, collections, tmp_path):
    import ansible

    (tmp_path / "ansible").symlink_to(Path(ansible.__file__).parent)
    root = collections / "ansible_collections/llmops/vllm"
    command = [
        str(machine.python(version)),
        "-I",
        "-c",
        f"import sys; sys.path[:0] = {[str(tmp_path), str(collections)]}\n{IMPORTS}",
        str(root),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len([*root.glob("plugins/module*/**/*.py")])


def test_a_play_over_hosts_of_every_python(collections, tmp_path):
    hosts = plays.inventory(tmp_path, {f"python{version}": str(machine.python(version)) for version in HOSTS})
    bin = Path(sys.executable).parent
    dry = plays.play(bin, collections, tmp_path, "-i", hosts, "llmops.vllm.site", "--check")
    assert dry.returncode == 0
    figures = plays.recap(dry.stdout)
    assert set(figures) == {f"python{version}" for version in HOSTS}
    assert {(told["failed"], told["unreachable"]) for told in figures.values()} == {(0, 0)}
    assert len({(told["ok"], told["changed"]) for told in figures.values()}) == 1, "the same on all"

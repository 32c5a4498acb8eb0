"""What is published: all that belongs, nothing else, and every playbook runs from it by its full name."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path, PurePath

import machine
import plays
import pytest

BIN = Path(sys.executable).parent
# What belongs: these files, and of these directories what ends like this.
FILES = {
    "README.md",
    "LICENSE",
    "meta/runtime.yml",
    "meta/execution-environment.yml",
    "meta/bindep.txt",
    "MANIFEST.json",
    "FILES.json",
}
TREES = {
    "plugins": {".py", ".css"},
    "roles": {".yml", ".j2", ".py"},
    "playbooks": {".yml", ".md", ".json", ".safetensors", ".jinja", ".py"},
    "inventories": {".yml", ".txt"},
    "docs": {".md", ".png", ".yml", ".rst", ".cfg"},
    "changelogs": {".yml", ".yaml"},
}
# Playbooks that do their work without an engine, on a host that has none.
WITHOUT_ENGINE = {"doctor": "TASK [Say what is wrong]", "status": "none", "stop": "", "prune_models": "[], 0.00 Bytes"}


def belongs(name: str) -> bool:
    path = PurePath(name)
    if path.is_relative_to("docs/docsite"):
        return path.name in ("links.yml", "extra-docs.yml")
    return name in FILES or (path.parts[0] in TREES and path.suffix in TREES[path.parts[0]])


@pytest.fixture(scope="module")
def names(tarball):
    with tarfile.open(tarball) as tar:
        return {member.name for member in tar if member.isfile()}


def test_nothing_superfluous(names):
    assert {name for name in names if not belongs(name)} == set()


def test_nothing_missing(names):
    of_the_clone = {name for name in machine.files() if belongs(name)}
    assert of_the_clone - names == set()
    assert names - of_the_clone == {"MANIFEST.json", "FILES.json"}
    assert names >= FILES


@pytest.mark.parametrize("name", sorted(WITHOUT_ENGINE))
def test_a_playbook_by_its_full_name(name, collections, tmp_path):
    hosts = plays.inventory(tmp_path, {"host": sys.executable})
    done = plays.play(BIN, collections, tmp_path, "-i", hosts, f"llmops.vllm.{name}")
    assert done.returncode == 0
    assert plays.recap(done.stdout)["host"]["failed"] == 0
    assert WITHOUT_ENGINE[name] in " ".join(done.stdout.split())


def test_the_whole_job_as_far_as_the_models_and_the_drafter_go(collections, tmp_path):
    """From an empty directory: the overlay is there, right, and a second run changes nothing."""
    play = "- hosts: all\n  gather_facts: false\n  roles: [llmops.vllm.vllm_models, llmops.vllm.vllm_drafter]\n"
    (tmp_path / "play.yml").write_text(play)
    hosts = plays.inventory(tmp_path, {"host": sys.executable}, vllm_drafter_build={"version": "0.32.0"})
    for changes in (True, False):
        done = plays.play(BIN, collections, tmp_path, "-i", hosts, "play.yml")
        assert done.returncode == 0
        assert (plays.recap(done.stdout)["host"]["changed"] > 0) is changes
    (config,) = (tmp_path / "host/overlays").glob("*/config.json")
    assert '"mask_token_id": 3' in config.read_text()

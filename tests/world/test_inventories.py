"""The inventories that people copy: filled in as they say, they run to the end in check mode on hosts that have no GPU, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import machine
import plays
import pytest
import yaml

from ansible_collections.llmops.vllm.plugins.plugin_utils import variables
from ansible_collections.llmops.vllm.tests.hub.hub import Hub

BIN = Path(sys.executable).parent
SAMPLES = machine.CLONE / "inventories"
DIGITS = "2ef1a07c" * 5


def hostvars(inventory: Path, *words: str) -> dict[str, dict]:
    command = [str(BIN / "ansible-inventory"), "-i", str(inventory), "--list", *words]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(told)["_meta"]["hostvars"]


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


@pytest.fixture
def filled(hub, tmp_path):
    """A copy of a sample, in which a person has written what only they can know."""

    def fill(name: str) -> Path:
        copy = Path(shutil.copytree(SAMPLES / name, tmp_path / name))
        for file in copy.rglob("*.yml"):
            text = file.read_text()
            for repo in re.findall(r"^  repo: (\S+)$", text, re.MULTILINE):
                hub.add_directory(repo, plays.PAIR / ("drafter" if "DFlash" in repo else "target"))
                revision = hub.repositories[repo].names["main"]
                text = re.sub(rf'(  repo: {re.escape(repo)}\n  revision: )""', rf'\1"{revision}"', text)
            text = text.replace('vllm_build_commit: ""', f'vllm_build_commit: "{DIGITS}"')
            for path, kind in {"Qwen3.6-27B-DFlash": "drafter", "Qwen3.6-27B": "target"}.items():
                text = text.replace(f"path: /srv/models/{path}\n", f"path: {plays.PAIR}/{kind}\n")
            file.write_text(text)
        return copy

    return fill


def dry(playbook: str, inventory: Path, collections: Path, hub: Hub, *words: object, code: int = 0) -> str:
    """The play on this machine in place of each host, as whoever runs this."""
    place = inventory.parent
    given = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "vllm_home": str(place / "home"),
        "vllm_models_endpoint": hub.url,
    }
    (place / "given.json").write_text(json.dumps(given))
    words = ("-i", inventory, f"llmops.vllm.{playbook}", "--check", "--diff", "-e", f"@{place}/given.json", *words)
    done = plays.play(BIN, collections, place, *words)
    assert done.returncode == code
    assert not (place / "home").exists()
    return done.stdout


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda sample: sample.name)
def test_a_sample_gives_what_the_roles_take(sample):
    told = hostvars(sample)
    assert told
    for given in told.values():
        ours = {name for name in given if name.startswith("vllm_")}
        assert ours - variables.public() == set()
    servers = [(given.get("ansible_host"), given.get("vllm_serve_port", 8000)) for given in told.values()]
    assert len(set(servers)) == len(servers), "two servers of a host have each a port of its own"
    comments = [line for file in sample.rglob("*.yml") for line in file.read_text().splitlines() if "#" in line]
    assert len(comments) >= 5


def test_the_story_says_to_the_end_what_it_would_do(filled, collections, hub):
    """One container with two GPUs: its models are there, the build and all after it are not."""
    inventory = filled("lxc-pair")
    (given,) = hostvars(inventory).values()
    assert given["vllm_serve_args"]["tensor-parallel-size"] == 2
    assert given["vllm_serve_speculative"] == {"num_speculative_tokens": 15}
    assert given["vllm_build_ref"] == "refs/pull/40898/head"
    said = dry("site", inventory, collections, hub)
    figures = plays.recap(said)["lxc1"]
    assert (figures["failed"], figures["unreachable"]) == (0, 0)
    assert figures["changed"] >= 8
    said = " ".join(said.split())
    assert '"mask_token_id": 3' in said or "mask_token_id" in said, "what is wrong with the drafter is seen"
    assert (
        f"As things are, it could not be started. There is no program {inventory.parent}/home/builds/{DIGITS[:12]}"
        in said
    )
    assert "--tensor-parallel-size=2" in said


def test_what_was_not_filled_in_is_named(collections, hub, tmp_path):
    copy = Path(shutil.copytree(SAMPLES / "lxc-pair", tmp_path / "lxc-pair"))
    file = copy / "group_vars/vllm.yml"
    file.write_text(re.sub(r"path: /srv/models/(\S+)\n", f"path: {plays.PAIR}/target\n", file.read_text()))
    said = dry("site", copy, collections, hub, code=2)
    assert "git ls-remote https://github.com/vllm-project/vllm.git refs/pull/40898/head" in " ".join(said.split())


def test_a_fleet_with_its_vault_says_to_the_end_what_it_would_do(filled, collections, hub):
    """Models from a hub that are not there yet, two kinds of GPUs, two sites, a canary in the first batch."""
    inventory = filled("fleet")
    (inventory.parent / "password").write_text("a password\n")
    vault = inventory / "group_vars/vllm/vault.yml"
    vault.write_text(vault.read_text().replace('api_key: ""', "api_key: sk-aKeyThatNobodyMaySee"))
    opened = ["--vault-password-file", str(inventory.parent / "password")]
    subprocess.run([str(BIN / "ansible-vault"), "encrypt", *opened, str(vault)], check=True, capture_output=True)
    assert vault.read_text().startswith("$ANSIBLE_VAULT")

    said = dry("rollout", inventory, collections, hub, *opened)
    assert "sk-aKeyThatNobodyMaySee" not in said
    figures = plays.recap(said)
    assert set(figures) == set(hostvars(inventory, *opened))
    assert {(told["failed"], told["unreachable"]) for told in figures.values()} == {(0, 0)}
    assert min(told["changed"] for told in figures.values()) >= 8
    first = said.split("PLAY [Roll out]")[1]
    assert set(re.findall(r"^\w+: \[(\S+?)\]", first, re.MULTILINE)) == {"gpu1"}, "the canary is first"
    said = " ".join(said.split())
    for repo in ("Qwen/Qwen3.6-27B", "z-lab/Qwen3.6-27B-DFlash", "Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16"):
        assert f"{repo} would come to" in said
    assert "is not on gpu5 yet. Once they are, the drafter's config is held against the weights" in said


def test_canaries_and_sites_are_groups_to_limit_by():
    graph = [str(BIN / "ansible-inventory"), "-i", str(SAMPLES / "fleet"), "--list"]
    groups = json.loads(subprocess.run(graph, check=True, capture_output=True, text=True).stdout)
    assert groups["canaries"]["hosts"] == ["gpu1", "gpu4"]
    sites = [set(groups[name]["hosts"]) for name in ("site_north", "site_south")]
    kinds = [set(groups[name]["hosts"]) for name in ("h100_pair", "l40s")]
    assert set.union(*sites) == set.union(*kinds) == set(groups["_meta"]["hostvars"])
    assert not set.intersection(*sites)
    assert not set.intersection(*kinds)
    ordered = yaml.safe_load((SAMPLES / "fleet/hosts.yml").read_text())["all"]["children"]["vllm"]["children"]
    assert next(iter(ordered)) == "canaries"

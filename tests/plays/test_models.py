"""vllm_models as a play runs it: the tiny pair out of a hub on loopback, and the drafter mended in an overlay beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.hub.hub import Hub
from ansible_collections.llmops.vllm.tests.hub.python import with_huggingface_hub

CLONE = Path(__file__).parents[2]
PAIR = CLONE / "playbooks/files/tiny-pair"
TOKEN = "hf_of_a_user_that_may"
PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    vllm_drafter_build: {version: 0.32.0}
    vllm_drafter_values:
      dflash_config: {mask_token_id: 3, target_layer_ids: [1, 3, 5]}
      layer_types: [sliding_attention, sliding_attention, sliding_attention]
      sliding_window: 24
  roles:
    - llmops.vllm.vllm_models
    - llmops.vllm.vllm_drafter
  post_tasks:
    - ansible.builtin.debug:
        msg: "HANDED ON {{ vllm_models_result | to_json }} {{ vllm_drafter_result.path }} END"
"""


@pytest.fixture
def hub():
    with Hub() as hub:
        hub.add_directory("tiny/target", PAIR / "target", gated=True)
        hub.add_directory("tiny/drafter", PAIR / "drafter")
        hub.tokens[TOKEN] = {"tiny/target"}
        yield hub


class Plays:
    def __init__(self, home: Path, hub: Hub, python: str) -> None:
        self.home = home
        (home / "play.yml").write_text(PLAY)
        names = {"target": "tiny/target", "drafter": "tiny/drafter"}
        wishes = {
            f"vllm_models_{kind}": {"repo": name, "revision": hub.repositories[name].names["main"]}
            for kind, name in names.items()
        }
        self.variables = {
            "vllm_home": str(home / "vllm"),
            "vllm_user": os.environ.get("USER", "root"),
            "vllm_models_endpoint": hub.url,
            "vllm_models_token": TOKEN,
            "vllm_models_python": python,
            **wishes,
        }

    def play(self, *options: str, well: bool = True, hosts: str = "localhost,", **variables: object) -> str:
        extra = self.home / "variables.json"  # not an argument, or the token in it would be in ps
        extra.write_text(json.dumps({**self.variables, **variables}))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ansible.cli.playbook",
                *("-c", "local", "-i", hosts, "-e", f"@{extra}"),
                *options,
                self.home / "play.yml",
            ],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
                "ANSIBLE_NOCOLOR": "1",
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        print(done.stdout)
        assert (done.returncode == 0) == well
        return done.stdout


@pytest.fixture
def plays(tmp_path, hub):
    return Plays(tmp_path, hub, str(with_huggingface_hub()))


def changed(said: str) -> int:
    return int(re.findall(r"changed=(\d+)", said)[-1])


def handed_on(said: str) -> tuple[dict, Path]:
    found = re.search(r"HANDED ON (\{.*\}) (\S+) END", re.sub(r"\s+", " ", said))
    return json.loads(found[1]), Path(found[2])


def test_fetched_mended_and_left_alone_by_the_next_fetch(plays, hub):
    told = plays.play("--check")
    assert len(re.findall(r"would come to", told)) == 2
    assert hub.sent == 0 and not (plays.home / "vllm").exists()

    models, overlay = handed_on(plays.play("-vvv"))
    drafter = Path(models["drafter"]["path"])
    assert overlay.name.startswith("tiny--drafter-")
    assert json.loads((overlay / "config.json").read_text())["dflash_config"]["mask_token_id"] == 3
    for kind in ("target", "drafter"):
        for path in (PAIR / kind).iterdir():
            assert (Path(models[kind]["path"]) / path.name).read_bytes() == path.read_bytes()

    hub.forget()
    assert changed(plays.play()) == 0
    assert hub.asked == []

    said = plays.play(vllm_models_verify="full")
    assert changed(said) == 0
    assert handed_on(said)[1] == overlay
    assert (drafter / "config.json").read_bytes() == (PAIR / "drafter/config.json").read_bytes()


def test_the_token_is_said_nowhere(plays):
    said = plays.play("-vvv", "--diff")
    assert TOKEN not in said
    assert "hf_" not in re.sub(r"hf_snapshot|hf_xet", "", said)


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (
            {"repo": "tiny/drafter"},
            "takes either path, a directory of this host from / on, or repo and revision, of a hub",
        ),
        ({"repo": "tiny/drafter", "revision": "0" * 40, "path": "/x"}, "takes either path"),
        ({"repo": "tiny/drafter", "revision": "main"}, '"main" is no commit of tiny/drafter'),
        ({"repo": "tiny/drafter", "revision": "0" * 40}, "tiny/drafter has no revision 000"),
        ({"repo": "tiny/none", "revision": "0" * 40}, "there is no model tiny/none at"),
        ({"path": "/nowhere"}, "There is no model at /nowhere on localhost"),
    ],
    ids=["half", "both", "a branch", "no such revision", "no such repo", "no such path"],
)
def test_what_cannot_be_meant_is_refused(plays, hub, wrong, cause):
    said = plays.play(well=False, vllm_models_drafter=wrong, vllm_models_target={"path": str(PAIR / "target")})
    assert cause in re.sub(r"\s+", " ", said.replace('\\"', '"'))


def test_a_branch_is_taken_if_that_is_asked_for(plays, hub):
    wish = {"repo": "tiny/drafter", "revision": "main"}
    said = plays.play(
        vllm_models_drafter=wish, vllm_models_moving=True, vllm_models_target={"path": str(PAIR / "target")}
    )
    assert handed_on(said)[0]["drafter"]["revision"] == hub.repositories["tiny/drafter"].names["main"]


def test_hosts_of_a_site_have_their_own_homes(plays, hub):
    """The site is given to the role, so that no host's variables tell it."""
    play = """
- hosts: all
  gather_facts: false
  roles:
    - {role: llmops.vllm.vllm_models, vllm_models_site: here, vllm_models_share_address: 127.0.0.1}
"""
    (plays.home / "play.yml").write_text(play)
    homes = {name: plays.home / name for name in ("one", "two", "three")}
    hosts = {name: {"vllm_home": str(home)} for name, home in homes.items()}
    (plays.home / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    del plays.variables["vllm_home"]
    plays.play(hosts=str(plays.home / "hosts.yml"))
    for home in homes.values():
        for kind in ("target", "drafter"):
            (snapshot,) = (home / f"models/tiny--{kind}").iterdir()
            for path in (PAIR / kind).iterdir():
                assert (snapshot / path.name).read_bytes() == path.read_bytes()
    sizes = [path.stat().st_size for kind in ("target", "drafter") for path in (PAIR / kind).iterdir()]
    assert hub.sent == sum(sizes), "it left the hub once"

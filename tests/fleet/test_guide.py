"""The guide to the first host, followed word by word from an empty directory, on a host that its reader has never seen.

What the guide's host has and this one lacks is put in another's place by one file of variables: two GPUs, the internet, and a model of 27
billion parameters.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, CLONE, RIGHT, Serving, changed

pytestmark = [pytest.mark.engine, pytest.mark.long]
GUIDES = CLONE / "docs"
NAME = "qwen3.6-27b"
"""What the guide's server calls its model."""


class Reader:
    """Someone with an empty directory, a shell and the guide."""

    def __init__(self, serving: Serving, directory: Path) -> None:
        self.serving, self.directory = serving, directory
        self.host = serving.fleet.hosts[0]
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "PIP_CONSTRAINT": str(CLONE / "requirements/constraints.txt"),
            "ANSIBLE_SSH_ARGS": f"-F {serving.fleet.home}/ssh_config",
            "ANSIBLE_NOCOLOR": "1",
        }

    def types(self, script: str) -> str:
        """What a block of commands says. The commands of one block share a shell, and none may fail."""
        script = script.replace("git+https://github.com/llmops/ansible-collection-vllm.git", f"git+file://{CLONE}/")
        done = subprocess.run(
            ["bash", "-e"], input=script, cwd=self.directory, env=self.env, text=True, capture_output=True, check=False
        )
        print(script, done.stdout, done.stderr, sep="\n")
        assert done.returncode == 0, script
        return done.stdout

    def writes(self, file: str, text: str) -> None:
        path = self.directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("192.0.2.21", self.host.address).replace("<all 40 digits>", "0" * 40))

    def current(self) -> str:
        return self.host.run("readlink /opt/vllm/instances/default/current").stdout.strip().removeprefix("releases/")


def block(guide: str, begin: str, language: str) -> str:
    """The first block of a guide after some words."""
    text = (GUIDES / f"{guide}.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text[text.index(begin) :], re.DOTALL)[0]


def stand_ins(serving: Serving) -> dict[str, object]:
    return {
        "vllm_build_mode": "existing",
        "vllm_build_venv": str(serving.venv),
        "vllm_models_target": {"path": f"{serving.models}/target"},
        "vllm_models_drafter": {"path": f"{serving.models}/drafter"},
        "vllm_drafter_values": RIGHT,
        "vllm_serve_args": {**ARGS, "served-model-name": NAME},
        "vllm_serve_speculative": {"num_speculative_tokens": 7},
        "vllm_serve_env": {},
        "vllm_verify_prompts": [f"Recite chapter {n}" for n in range(8)],
        "vllm_verify_max_tokens": 400,
        "vllm_verify_unique_prefix": False,
    }


@pytest.fixture(scope="module")
def reader(fleets, tmp_path_factory) -> Reader:
    serving = Serving.on(fleets, "/opt/vllm", "/srv/models", systemd=1)
    reader = Reader(serving, tmp_path_factory.mktemp("reader"))
    reader.types(block("first-host", "## 2. Install", "sh"))
    reader.directory /= "gpu"
    reader.env["PATH"] = f"{reader.directory}/venv/bin:{reader.env['PATH']}"
    reader.writes("ansible.cfg", block("start", "and this `ansible.cfg`", "ini"))
    reader.writes("inventory/hosts.yml", block("first-host", "`inventory/hosts.yml`:", "yaml"))
    reader.writes("inventory/group_vars/vllm.yml", block("first-host", "`inventory/group_vars/vllm.yml`:", "yaml"))
    reader.writes("inventory/host_vars/lxc1.yml", yaml.safe_dump(stand_ins(serving)))
    return reader


def test_the_guide_leads_to_a_proven_server(reader):
    seen = reader.types(block("first-host", "## 6. See", "sh"))
    assert re.search(r"failed=0 ", seen)
    assert reader.host.run("test -e /opt/vllm", check=False).returncode == 1, "check mode left something behind"

    reader.types(block("first-host", "## 7. Run it", "sh"))
    assert re.search(
        r"^ +lxc1 +\w{12} .*\(running\) .* 8000$", reader.types(block("first-host", "## 8. See", "sh")), re.MULTILINE
    )
    assert len(list((reader.directory / "reports").glob("site-*.html"))) == 2

    again = reader.types(block("first-host", "## 7. Run it", "sh"))
    assert changed(again) == 0


def test_the_server_answers_as_the_guide_says(reader):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The guide's tunnel, from a port that nobody has, and without a shell at its end.
    tunnel = shlex.split(block("first-host", "says which release runs", "sh"))
    assert tunnel == ["ssh", "-L", "8000:127.0.0.1:8000", "root@192.0.2.21"]
    with subprocess.Popen(
        ["ssh", "-F", f"{reader.serving.fleet.home}/ssh_config", "-N", "-L", f"{port}:127.0.0.1:8000", reader.host.name]
    ) as ssh:
        try:
            wait_for("the tunnel", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 20)
            asked = block("first-host", "so in another window", "sh").replace("127.0.0.1:8000", f"127.0.0.1:{port}")
            answer = json.loads(reader.types(asked))
        finally:
            ssh.terminate()
    assert answer["model"] == NAME and answer["choices"][0]["message"]["content"]


def test_a_change_can_be_taken_back_and_compared(reader):
    before = reader.current()
    wanted = stand_ins(reader.serving)
    wanted["vllm_serve_args"] = {**wanted["vllm_serve_args"], "max-num-seqs": 3}
    reader.writes("inventory/host_vars/lxc1.yml", yaml.safe_dump(wanted))
    reader.types(block("first-host", "## 7. Run it", "sh"))
    after = reader.current()
    assert after != before

    reader.types(block("first-host", "## 9. Change", "sh"))
    assert reader.current() == before

    compare = block("first-host", "How much better", "sh").rstrip() + " -e vllm_compare_rounds=1\n"
    assert "acceptance length" in reader.types(compare.replace("<before>", before).replace("<after>", after))
    assert reader.current() == before

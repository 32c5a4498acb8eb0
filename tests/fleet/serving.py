"""Serving on a fleet: the models laid down, the engine of this machine seen by every host, and the playbooks run on them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host

CLONE = Path(__file__).parents[2]
BUILDS = CLONE / ".demo/vllm/builds"
PAIR = CLONE / "playbooks/files/tiny-pair"
ARGS = {
    "served-model-name": "tiny",
    "dtype": "float32",
    "enforce-eager": True,
    "max-model-len": 512,
    "max-num-seqs": 4,
    "max-num-batched-tokens": 512,
    "kv-cache-memory-bytes": "64M",
}
RIGHT = {
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 24,
}


@dataclasses.dataclass(frozen=True)
class Serving:
    """A fleet that can serve the tiny pair. home: vllm_home; models: where the pair lies on each host."""

    fleet: Fleet
    venv: Path | str
    home: str
    models: str
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def on(
        cls,
        fleets: Callable[..., Fleet],
        home: str,
        models: str,
        *,
        venv: Path | None = None,
        binds: Sequence[Path] = (),
        **counts: int,
    ) -> Serving:
        """venv: if not the newest build's own; binds: what each host sees besides."""
        engines = sorted(BUILDS.glob("*/build.json"))
        if not engines:
            pytest.skip("there is no engine yet: make demo installs it")
        build = engines[-1].resolve().parent
        venv = venv or build / "venv"
        python = Path(os.path.realpath(venv / "bin/python")).parents[1]
        fleet = fleets(**counts, binds=[build, python, PAIR, *binds])
        for host in fleet.hosts:
            host.run("chmod a+x /root")  # the Python may lie there
            lay(host, models)
        return cls(fleet, venv, home, models)

    def start(self, playbook: str, *options: str, by: Sequence[str] = (), **more: object) -> subprocess.Popen[str]:
        """by: the words of a program that runs what comes after them."""
        # Not an argument, or a key in it would be in ps of this machine.
        descriptor, extra = tempfile.mkstemp(dir=self.fleet.home, suffix=".json")
        with open(descriptor, "w") as f:
            json.dump({**variables(self.home, self.venv, self.models), **more}, f)
        return subprocess.Popen(
            [
                *by,
                Path(sys.executable).with_name("ansible-playbook"),
                f"playbooks/{playbook}.yml",
                *("-i", self.fleet.inventory, "-e", f"@{extra}", *options),
            ],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                **self.environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def play(self, playbook: str, *options: str, well: bool = True, **more: object) -> str:
        """What the playbook said; it must have gone well, or not."""
        with self.start(playbook, *options, **more) as run:
            said = run.communicate()[0]
        print(said)
        assert (run.returncode == 0) == well, f"{playbook} ended with {run.returncode}"
        return said


def variables(home: str, venv: Path | str, models: str) -> dict[str, object]:
    """For the pair, mended and measured."""
    return {
        "vllm_home": home,
        "vllm_build_mode": "existing",
        "vllm_build_venv": str(venv),
        "vllm_models_target": {"path": f"{models}/target"},
        "vllm_models_drafter": {"path": f"{models}/drafter"},
        "vllm_drafter_values": RIGHT,
        "vllm_serve_port": 18500,
        "vllm_serve_timeout": 600,
        "vllm_serve_speculative": {"num_speculative_tokens": 7},
        "vllm_serve_args": ARGS,
        "vllm_verify_acceptance_length": 7,
        "vllm_verify_prompts": [f"Recite chapter {n}" for n in range(8)],
        "vllm_verify_max_tokens": 400,
        "vllm_verify_unique_prefix": False,
    }


def lay(host: Host, models: str) -> None:
    """The pair, where the host may write to it."""
    host.run(f"mkdir -p {shlex.quote(models)} && cp -r {shlex.quote(str(PAIR))}/* {shlex.quote(models)}")


def served(host: Host) -> dict[int, str]:
    """vLLM's processes on a host: pid and command. A release on trial, which Python is given as text, is none: it serves nothing."""
    listed = host.run("ps -eo pid=,args=").stdout.splitlines()
    rows = (line.split(None, 1) for line in listed)
    return {
        int(pid): args
        for pid, args in rows
        if args.startswith("VLLM::") or ("/bin/vllm" in args and " -c " not in args)
    }


def changed(said: str) -> int:
    """How many tasks changed something, on all hosts."""
    return sum(map(int, re.findall(r"changed=(\d+)", said)))

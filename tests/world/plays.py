"""ansible-playbook as somebody runs it who has the collection installed, and nothing of the clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import machine

PAIR = machine.CLONE / "playbooks/files/tiny-pair"
RIGHT = {
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 24,
}
PLAYBOOKS = sorted(file.stem for file in (machine.CLONE / "playbooks").glob("*.yml"))


def variables(home: Path) -> dict[str, Any]:
    """Of a host that has the tiny pair and nothing else, and needs no privilege."""
    return {
        "vllm_home": str(home),
        "vllm_user": os.environ.get("USER") or "root",
        "vllm_host_create_user": False,
        "vllm_models_target": {"path": f"{PAIR}/target"},
        "vllm_models_drafter": {"path": f"{PAIR}/drafter"},
        "vllm_drafter_values": RIGHT,
        "vllm_serve_supervisor": "process",
        "vllm_doctor_become": False,
    }


def inventory(place: Path, interpreters: Mapping[str, Path | str], **more: Any) -> Path:
    """A file with a local host for each of these, under a home of its own."""
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(python),
            **variables(place / name),
            **more,
        }
        for name, python in interpreters.items()
    }
    place.mkdir(parents=True, exist_ok=True)
    (place / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    return place / "hosts.json"


def play(
    bin: Path, collections: Path, place: Path, *words: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs ansible-playbook of this venv in a directory, with no configuration but what is said here."""
    place.mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    (place / "ansible.cfg").touch()
    done = subprocess.run(
        [str(bin / "ansible-playbook"), *map(str, words)],
        cwd=place,
        env={
            **own,
            "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_HOME": str(place / ".ansible"),
            "PATH": f"{bin}:{os.environ['PATH']}",
            **environment,
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    print(done.stdout)
    assert not re.search(r"[\x1b\r]", done.stdout), "no terminal, so neither colour nor lines that are written over"
    return done


def recap(said: str) -> dict[str, dict[str, int]]:
    """The figures of each host at the end."""
    lines = re.findall(r"^(\S+)\s+: (ok=.*)$", said, re.MULTILINE)
    return {host: {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", figures)} for host, figures in lines}


def warnings(said: str) -> list[str]:
    """That something of ours is deprecated, or can't be loaded."""
    return re.findall(r"^\[(?:DEPRECATION WARNING|ERROR)\].*", said, re.MULTILINE)

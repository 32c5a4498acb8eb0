"""A hub on loopback, and hf_snapshot called as Ansible calls it, with the real huggingface_hub behind it."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes, stopping
from ansible_collections.llmops.vllm.tests.hub.hub import Hub
from ansible_collections.llmops.vllm.tests.hub.python import with_huggingface_hub

MODULE = Path(__file__).parents[3] / "plugins/modules/hf_snapshot.py"
# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = """
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path("{module}", run_name="__main__")
"""
FILES = {
    "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}\n',
    "model-00001-of-00002.safetensors": random.Random(1).randbytes(3_000_000),
    "model-00002-of-00002.safetensors": random.Random(2).randbytes(2_000_000),
    "tokenizer.json": b'{"version": "1.0"}\n' * 1000,
    "a directory/notes \u00fc.txt": b"umlauts and spaces\n",
    "empty.txt": b"",
}
NAME = "someone/some-model"


@pytest.fixture(scope="session")
def python():
    return str(with_huggingface_hub())


@pytest.fixture
def hub():
    with Hub() as hub:
        hub.add(NAME, dict(FILES))
        yield hub


@dataclasses.dataclass
class Host:
    """A host's directory of models, and the module."""

    home: Path
    hub: Hub
    python: str

    @property
    def revision(self) -> str:
        return self.hub.repositories[NAME].names["main"]

    @property
    def path(self) -> Path:
        return self.home / "models/someone--some-model" / self.revision

    @property
    def job(self) -> Path:
        return self.home / "models/.jobs/someone--some-model" / self.revision

    def call(self, check: bool = False, **params: Any) -> dict[str, Any]:
        args = {
            "repo": NAME,
            "revision": self.revision,
            "dest": str(self.home / "models"),
            "endpoint": self.hub.url,
            "python": self.python,
            "timeout": 60,
            **params,
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            "_ansible_tmpdir": str(self.home),
            "_ansible_remote_tmp": str(self.home),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROFILED.format(module=str(MODULE))],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def well(self, **params: Any) -> dict[str, Any]:
        result = self.call(**params)
        assert not result.get("failed"), result["msg"]
        return result

    def refused(self, **params: Any) -> str:
        result = self.call(**params)
        assert result.get("failed"), result
        return str(result["msg"])

    def content(self) -> dict[str, bytes]:
        """What the snapshot holds, without the record."""
        return {
            str(p.relative_to(self.path)): p.read_bytes()
            for p in self.path.rglob("*")
            if p.is_file() and p.name != ".snapshot.json"
        }

    def close(self) -> None:
        for pidfile in self.home.glob("models/.jobs/*/*/fetch.pid"):
            record = processes.read_pidfile(str(pidfile))
            if record:
                stopping.stop(
                    lambda r=record: processes.session_members(r),
                    lambda pids: stopping.send(9, pids, "sent"),
                    5,
                    lambda: False,
                )


@pytest.fixture
def host(tmp_path, hub, python):
    host = Host(tmp_path, hub, python)
    yield host
    host.close()

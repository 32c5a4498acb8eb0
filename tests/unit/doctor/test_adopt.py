"""adopt.yml as a person runs it, on this machine. A script stands in vLLM's place: what is taken over is what it was told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[3]
PAIR = CLONE / "playbooks/files/tiny-pair"
KEY = "canary-5f1d0c"


def adopt(place: Path, inventory: str, **variables: object) -> subprocess.CompletedProcess[str]:
    told = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "vllm_doctor_become": False,
    }
    return subprocess.run(
        [
            sys.executable, "-m", "ansible.cli.playbook", CLONE / "playbooks/adopt.yml", "-i", inventory,
            "-e", json.dumps({**told, **variables}),
        ],
        cwd=place, env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "PWD": str(place)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def server(tmp_path, port):
    script = tmp_path / "venv/bin/vllm"
    script.parent.mkdir(parents=True)
    script.write_text("import time; print('up', flush=True); time.sleep(600)")
    speculative = {"method": "dflash", "model": str(PAIR / "drafter"), "num_speculative_tokens": 7}
    transfer = {"kv_connector": "x", "secret_key": KEY}
    words = [f"--port={port}", "--kv-transfer-config", json.dumps(transfer), "--speculative-config", json.dumps(speculative)]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, script, "serve", PAIR / "target", *words], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HF_TOKEN": f"a {KEY}"},
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "up\n"
        yield process.pid
        process.kill()


def test_without_an_inventory_of_files_a_place_has_to_be_named(tmp_path):
    done = adopt(tmp_path, "gpu1,")
    assert done.returncode != 0
    assert "Name a directory by vllm_adopt_to." in " ".join(done.stdout.split())
    assert "None" not in [path.name for path in (CLONE / "playbooks").iterdir()]


def test_what_a_person_wrote_is_kept_and_no_secret_is_written(server, port, tmp_path):
    """To a place that is told from where the person is."""
    written = tmp_path / "vars/gpu1/vllm.yml"
    written.parent.mkdir(parents=True)
    written.write_text("mine: true\n")
    done = adopt(tmp_path, "gpu1,", vllm_adopt_to="vars", vllm_adopt_port=port)
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load(written.read_text())["vllm_serve_args"] == {"kv-transfer-config": {"kv_connector": "x"}}
    assert KEY not in done.stdout + written.read_text()
    assert "# - put --kv-transfer-config.secret_key into vllm_serve_args by a vault" in written.read_text()
    (kept,) = [path for path in written.parent.iterdir() if path != written]
    assert kept.read_text() == "mine: true\n"


def test_beside_the_inventory_unless_another_place_is_named(server, port, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/hosts").write_text("gpu1\n")
    done = adopt(tmp_path, str(tmp_path / "site/hosts"), vllm_adopt_port=port)
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load((tmp_path / "site/host_vars/gpu1/vllm.yml").read_text())["vllm_serve_port"] == port

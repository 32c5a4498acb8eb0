"""The targets of `ansible-test integration`, run by pytest as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TARGETS = Path(__file__).parent / "targets"
CLONE = Path(__file__).parents[2]


@pytest.mark.parametrize("target", sorted(path.name for path in TARGETS.iterdir()))
def test_a_target(target, tmp_path):
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "testhost", "gather_facts": False, "roles": [target]}])
    )
    hosts = {"testhost": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(TARGETS)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Hold it against what has to be" in done.stdout

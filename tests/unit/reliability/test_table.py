"""docs/reliability.md is what the table of faults says, and each row has a test that exists."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from ansible_collections.llmops.vllm.tests.fleet.faults import BY_ID, FAULTS, PAGE, matches, render

CLONE = Path(__file__).parents[3]


def test_the_page_is_rendered_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == render(), "python tests/fleet/faults.py writes it anew"


def test_each_row_has_a_name_of_its_own_and_a_test():
    assert len(FAULTS) == len(BY_ID) >= 40
    files = sorted({fault.test.partition("::")[0] for fault in FAULTS})
    # ansible-test has a venv of its own, without the plugin that the options of pyproject.toml are for, and plugins of its own.
    options = ["-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider"]
    options += ["--ansible-unit-inject-only"] if find_spec("pytest_ansible") else []
    found = os.pathsep.join([str(CLONE / ".collections"), *sys.path])
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--collect-only", "-q", *files],
        cwd=CLONE,
        env={**os.environ, "PYTEST_PLUGINS": "", "PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
    )
    assert {fault.test for fault in FAULTS} - set(listed.stdout.splitlines()) == set(), (
        listed.stdout[-2000:] + listed.stderr[-2000:]
    )


def test_what_is_said_may_have_anything_between():
    assert matches("The disk of … is full. Free", "fatal: The disk of /x is full. Free some space.")
    assert not matches("The disk … is full", "is full: The disk")
    assert not matches("a (b", "a b")

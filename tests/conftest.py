"""Imports of the collection go through Ansible's own loader, as they do when a play runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

COLLECTIONS = str(Path(__file__).parents[1] / ".collections")

if AnsibleCollectionConfig.collection_finder is None:  # ansible-test has set up its own
    # For the conftest files, which are read at once; pytest-ansible then sets up a loader of its own, from the variable.
    init_plugin_loader([COLLECTIONS])
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = COLLECTIONS


def pytest_addoption(parser):
    parser.addoption(
        "--record-tested", action="store_true", help="write down in tests/tested.json what was run for real"
    )


def pytest_configure(config):
    if config.getoption("--record-tested") and not hasattr(config, "workerinput"):
        from ansible_collections.llmops.vllm.tests.tested import Recorder

        config.pluginmanager.register(Recorder())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What a machine can't run is skipped aloud; in CI that is no excuse."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome, report.longrepr = "failed", f"skipped in CI: {report.longrepr[-1]}"
    return report

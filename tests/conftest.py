"""Imports of the collection go through Ansible's own loader, as they do when a play runs."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

COLLECTIONS = str(Path(__file__).parents[1] / ".collections")

# For the conftest files, which are read at once; pytest-ansible then sets up a loader of its own, from the variable.
init_plugin_loader([COLLECTIONS])
os.environ["ANSIBLE_COLLECTIONS_PATH"] = COLLECTIONS

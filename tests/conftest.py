"""Imports of the collection go through Ansible's own loader, which pytest-ansible sets up with this path."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(Path(__file__).parents[1] / ".collections")

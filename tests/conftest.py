"""Imports of the collection go through Ansible's own loader, as they do when a play runs."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(Path(__file__).parents[1] / ".collections")])

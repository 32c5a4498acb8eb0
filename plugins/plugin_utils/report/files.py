# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the page and the JSON of a run lie."""

from __future__ import annotations

import contextlib
import json
import os

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.page import page
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Run


class Files:
    """Two files of one name in a directory, written as often as there is more to tell, each time whole or not at all."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = ""

    def write(self, run: Run) -> str:
        """Returns the page's path."""
        self._name = self._name or self._take(run)
        texts = {"html": page(run), "json": json.dumps(run.data(), indent=2, ensure_ascii=False) + "\n"}
        for kind, text in texts.items():
            part = f"{self._name}.{kind}.{os.getpid()}"
            try:
                with open(part, "w", encoding="utf-8") as f:
                    f.write(text)
                os.replace(part, f"{self._name}.{kind}")
            except OSError as e:
                e.filename = part
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise
        return f"{self._name}.html"

    def _take(self, run: Run) -> str:
        """A name that no other run has, though several may begin within a second."""
        os.makedirs(self._directory, exist_ok=True)
        stamp = "".join(c for c in run.started if c.isalnum())[:15]
        first = name = os.path.join(self._directory, f"{run.playbook}-{stamp}Z")
        taken = 1
        while os.path.lexists(f"{name}.json"):
            taken += 1
            name = f"{first}-{taken}"
        return name

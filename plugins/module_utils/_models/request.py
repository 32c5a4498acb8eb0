# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the job that fetches a model is asked for, as it lies beside it until it is read."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets
from ansible_collections.llmops.vllm.plugins.module_utils._models.snapshot import Place


@dataclasses.dataclass(frozen=True)
class Request:
    """models: the directory of all models. Empty where something is not given.

    source: where the content comes from, if not from the hub. digest: that of the listing. deep: hash what is there too.
    python: one that has huggingface_hub; without it one is made in tools, of the requirements.
    """

    models: str
    repo: str
    revision: str
    endpoint: str
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    token: str = ""
    source: str = ""
    source_token: str = ""
    digest: str = ""
    deep: bool = False
    python: str = ""
    tools: str = ""
    requirements: tuple[str, ...] = ()
    index_url: str = ""
    wheelhouse: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(self.models, self.repo, self.revision)

    def plain(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    def masked(self, text: str) -> str:
        """A text without what must not be said."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return secrets.masked(text)

    def _secrets(self) -> list[str]:
        """The tokens, whatever the environment holds, and what of the addresses, as of proxies, is not bare."""
        values = {self.token, self.source_token, *self.environment.values()}
        addresses = [self.endpoint, self.source, self.index_url, *self.environment.values()]
        found = {value for value in values if len(value) >= secrets.SHORT}
        return sorted(found.union(*map(secrets.of_addresses, addresses)), key=len, reverse=True)


def take(path: str) -> Request:
    """Read a request and remove it, as there may be a token in it."""
    with open(path, encoding="utf-8") as f:
        data: dict[str, Any] = json.load(f)
    os.unlink(path)
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Request(**{**data, **lists})

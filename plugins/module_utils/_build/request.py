# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installer is asked for, as it lies beside it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets


@dataclasses.dataclass(frozen=True)
class Text:
    """A file of the controller that came along."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What makes one build differ from another. Its digest, with bare addresses, is part of the build's id."""

    mode: str
    python: str
    package: str = "vllm"
    version: str = ""
    wheel: str = ""
    commit: str = ""
    picks: tuple[str, ...] = ()
    patches: tuple[Text, ...] = ()
    kernels: str = "precompiled"
    device: str = "auto"
    layer: str = ""
    constraints: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    environment: str = ""
    """A digest of it, and a slow one: the values may be secret."""


@dataclasses.dataclass(frozen=True)
class Means:
    """How it is come by. May hold secrets, and another way to the same build makes no other build."""

    home: str
    repo: str = ""
    ref: str = ""
    tool: str = "pip"
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    torch_index: str = ""
    wheelhouse: str = ""
    offline: bool = False
    max_jobs: int = 0
    keep: int = 3
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Request:
    id: str
    wanted: Wanted
    means: Means

    def secrets(self) -> list[str]:
        """What must not be said: whatever the environment holds, and what of the addresses is not bare."""
        means, wanted = self.means, self.wanted
        addresses = [means.repo, means.index_url, *means.extra_index_urls, wanted.wheel, *wanted.constraints, *wanted.extras]
        values = {value for value in means.environment.values() if len(value) >= secrets.SHORT}
        return sorted(values.union(*map(secrets.of_addresses, addresses)), key=len, reverse=True)

    def public(self) -> dict[str, Any]:
        """What may stand in a file that all can read."""
        told = {name: value for name, value in dataclasses.asdict(self.wanted).items() if value}
        return {
            **told,
            "patches": [patch.name for patch in self.wanted.patches],
            "wheel": secrets.bare(self.wanted.wheel),
            "constraints": [secrets.bare(line) for line in self.wanted.constraints],
            "extras": [secrets.bare(line) for line in self.wanted.extras],
        }


def read(path: str) -> Request:
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    wanted, means = _with_tuples(data["wanted"]), _with_tuples(data["means"])
    wanted["patches"] = tuple(Text(**patch) for patch in wanted.get("patches", ()))
    # As an environment has it: who writes MAX_JOBS: 4 in an inventory means the text.
    means["environment"] = {name: str(value) for name, value in (means.get("environment") or {}).items()}
    # Before ansible-core 2.19 a template makes text of a number.
    means.update({name: int(means[name]) for name in ("max_jobs", "keep") if name in means})
    return Request(data["id"], Wanted(**wanted), Means(**means))


def _with_tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installer is asked for, as it lies beside it."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any


@dataclasses.dataclass(frozen=True)
class Text:
    """A file of the controller that came along."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What makes one build differ from another. Its digest is part of the build's id."""

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
    environment: str = ""
    """A digest of it: the values may be secret."""


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
        """What must not be said: whatever the environment holds, and the credentials of addresses."""
        urls = [self.means.repo, self.means.index_url, *self.means.extra_index_urls, self.wanted.wheel]
        users = [m[1] for url in urls if (m := re.match(r"\w[\w+.-]*://([^/@]+)@", url))]
        # A short value such as 1 or true is no secret, and masking it would make the log unreadable.
        values = [value for value in self.means.environment.values() if len(value) >= 8]
        return sorted({*values, *users, *(u.partition(":")[2] for u in users if ":" in u)}, key=len, reverse=True)

    def public(self) -> dict[str, Any]:
        """What may stand in a file that all can read."""
        told = {name: value for name, value in dataclasses.asdict(self.wanted).items() if value}
        told["patches"] = [patch.name for patch in self.wanted.patches]
        return {**told, "wheel": without_credentials(self.wanted.wheel)}


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


def without_credentials(text: str) -> str:
    """The text with the credentials of its addresses masked."""
    return re.sub(r"(\b\w[\w+.-]*://)[^/@\s'\"]+@", r"\1***@", text)

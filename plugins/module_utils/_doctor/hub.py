# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a model lies that a server was told of by a path or by its name on the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._build.installed import read_text

NAME = re.compile(r"[\w.-]+/[\w.-]+")


def directory(model: str, revision: str, environment: Mapping[str, str], cwd: str) -> str:
    """The model's directory as the server with this environment finds it; empty if there is none.

    A name is looked up in the cache of the hub's client: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME tell where that is.
    """
    home = environment.get("HOME", "/root")
    path = os.path.normpath(os.path.join(cwd or "/", model.replace("~", home, 1) if model.startswith("~/") else model))
    if os.path.isfile(os.path.join(path, "config.json")):
        return path
    if not NAME.fullmatch(model):
        return ""
    place = os.path.join(cache(environment), "models--" + model.replace("/", "--"))
    commit = read_text(os.path.join(place, "refs", revision or "main")).strip() or revision
    found = os.path.join(place, "snapshots", commit) if commit else ""
    return found if found and os.path.isfile(os.path.join(found, "config.json")) else ""


def cache(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "/root")
    above = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface"
    )
    return environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE") or os.path.join(above, "hub")

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An overlay: links to a drafter's files and a config.json of its own, so that nothing is ever written through a hub's cache."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from typing import Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._host import files

MARKER = ".overlay.json"
DIGEST = "{digest}"


class ForeignError(Exception):
    """Something that is no overlay of ours stands where one should be written."""


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What an overlay should be. links: target by name."""

    path: str
    links: Mapping[str, str]
    config: bytes
    marker: bytes


def digest(directory: str, config: bytes, headers: Mapping[str, str]) -> str:
    """What a drafter is, told by its content: the same on every host that holds the same files."""
    total = hashlib.sha256()
    total.update(hashlib.sha256(config).digest())
    for name, size in sorted(_sizes(directory)):
        total.update(f"{name}\0{size}\0{headers.get(name, '')}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def plan(source: str, destination: str, config: bytes, headers: Mapping[str, str]) -> Overlay:
    """The overlay of a drafter. {digest} in the destination becomes the first 12 digits of its digest."""
    short = digest(source, config, headers)
    path = os.path.abspath(destination.replace(DIGEST, short[:12]))
    links = {name: os.path.realpath(os.path.join(source, name)) for name in _names(source)}
    marker = {"overlay_of": os.path.abspath(source), "digest": short}
    return Overlay(path, links, config, (json.dumps(marker, indent=2) + "\n").encode())


def inspect(overlay: Overlay) -> list[str]:
    """What is amiss at the overlay's place, in words; empty if it is as it should be. Raises ForeignError."""
    if os.path.islink(overlay.path) or (os.path.lexists(overlay.path) and not os.path.isdir(overlay.path)):
        raise ForeignError(f"{overlay.path} is there and is no directory; nothing was written")
    if not os.path.isdir(overlay.path):
        return [f"{overlay.path} is absent"]
    present = set(os.listdir(overlay.path))
    if present and MARKER not in present:
        raise ForeignError(
            f"{overlay.path} is there and is no overlay of ours (it has no {MARKER}); nothing was written"
        )
    amiss = []
    for name in sorted(present - {MARKER, "config.json"}):
        if not os.path.islink(os.path.join(overlay.path, name)):
            raise ForeignError(f"{overlay.path}/{name} is no link, so it isn't ours; move it away. Nothing was written")
        if name not in overlay.links:
            amiss.append(f"{name} is a link too many")
    for name, target in sorted(overlay.links.items()):
        if name not in present:
            amiss.append(f"{name} is not linked")
        elif os.readlink(os.path.join(overlay.path, name)) != target:
            amiss.append(f"{name} is linked to something else")
    if read(os.path.join(overlay.path, "config.json")) != overlay.config:
        amiss.append("config.json is not as it should be")
    if read(os.path.join(overlay.path, MARKER)) != overlay.marker:
        amiss.append(f"{MARKER} is not as it should be")
    return amiss


def write(overlay: Overlay) -> None:
    """Make or repair the overlay. A new one appears whole; in one that is there each file changes at once, config.json last."""
    parent, name = os.path.split(overlay.path)
    if os.path.isdir(overlay.path):
        _fill(overlay, overlay.path)
        return
    for leftover in os.listdir(parent):
        if leftover.startswith(f".{name}.") and leftover.endswith(".new"):
            shutil.rmtree(os.path.join(parent, leftover))
    temporary = tempfile.mkdtemp(prefix=f".{name}.", suffix=".new", dir=parent)
    try:
        _fill(overlay, temporary)
        os.chmod(temporary, 0o755)
        os.rename(temporary, overlay.path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _fill(overlay: Overlay, directory: str) -> None:
    files.write(os.path.join(directory, MARKER), overlay.marker)
    for name in set(os.listdir(directory)) - set(overlay.links) - {MARKER, "config.json"}:
        os.unlink(os.path.join(directory, name))
    for name, target in overlay.links.items():
        path = os.path.join(directory, name)
        if not os.path.islink(path) or os.readlink(path) != target:
            files.link(target, path)
    if read(os.path.join(directory, "config.json")) != overlay.config:
        files.write(os.path.join(directory, "config.json"), overlay.config)


def read(path: str) -> bytes | None:
    """The content of a regular file; None if there is none, or a link in its place."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as f:
        return f.read()


def _names(directory: str) -> list[str]:
    """What of a drafter is served. Hidden entries are the downloader's own."""
    return [name for name in sorted(os.listdir(directory)) if not name.startswith(".") and name != "config.json"]


def _sizes(directory: str) -> list[tuple[str, int]]:
    found = []
    for name in _names(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            for parent, _directories, names in os.walk(path, followlinks=True):
                for inner in names:
                    whole = os.path.join(parent, inner)
                    found.append((os.path.relpath(whole, directory), os.stat(whole).st_size))
        else:
            found.append((name, os.stat(path).st_size))
    return found

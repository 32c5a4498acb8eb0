# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An overlay: links to a drafter's files beside a config.json of its own, so that a hub's cache is never written through."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._host import files

MARKER = ".overlay.json"
_OWN = frozenset({MARKER, "config.json"})


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What an overlay should hold. links: each link's target, by its name."""

    path: str
    links: Mapping[str, str]
    config: bytes
    marker: bytes

    def __str__(self) -> str:
        text = "".join(f"{name} -> {target}\n" for name, target in sorted(self.links.items()))
        return os.fsencode(text).decode("utf-8", "replace")  # a name may be no UTF-8, and a result must be


def digest(directory: str, config: bytes, headers: Mapping[str, str]) -> str:
    """What a drafter is, told by its content: the same on every host that holds the same files."""
    total = hashlib.sha256(hashlib.sha256(config).digest())
    for name, size in sorted(_sizes(directory)):
        total.update(f"{name}\0{size}\0{headers.get(name, '')}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def plan(source: str, destination: str, config: bytes, its_digest: str) -> Overlay:
    """The overlay of a drafter. {digest} in the destination becomes the first 12 digits of its digest."""
    path = os.path.abspath(destination.replace("{digest}", its_digest[:12]))
    inside = os.path.realpath(path) + os.sep
    if inside.startswith(os.path.realpath(source) + os.sep):
        raise RefusedError(f"the overlay {path} would lie in the drafter's own directory; choose another dest")
    links = {name: os.path.realpath(os.path.join(source, name)) for name in _names(source)}
    marker = json.dumps({"overlay_of": os.path.realpath(source), "digest": its_digest}, indent=2) + "\n"
    return Overlay(path, links, config, marker.encode())


def present(overlay: Overlay) -> Overlay | None:
    """What stands at the overlay's place now; None if nothing does. Raises RefusedError for anything but an overlay."""
    path = overlay.path
    if not os.path.lexists(path):
        return None
    if os.path.islink(path) or not os.path.isdir(path):
        raise RefusedError(f"{path} is there and is no directory; it was left alone")
    names = set(os.listdir(path))
    leftovers = set(filter(files.is_leftover, names))
    if names - leftovers and not os.path.isfile(os.path.join(path, MARKER)):
        raise RefusedError(f"{path} is there and is no overlay, having no {MARKER}; it was left alone")
    linked = names - leftovers - _OWN
    others = sorted(name for name in linked if not os.path.islink(os.path.join(path, name)))
    if others:
        raise RefusedError(f"{os.path.join(path, others[0])} is no link, so no overlay put it there; move it away")
    links = {name: os.readlink(os.path.join(path, name)) for name in linked} | dict.fromkeys(leftovers, "")
    return Overlay(path, links, read(os.path.join(path, "config.json")), read(os.path.join(path, MARKER)))


def write(overlay: Overlay) -> bool:
    """Make or repair the overlay, and say whether that was needed.

    A new one appears whole. In one that is there each file changes at once, its config.json last.
    """
    parent, name = os.path.split(overlay.path)
    os.makedirs(parent, exist_ok=True)
    with files.sole_writer(parent):
        there = present(overlay)
        if there == overlay:
            return False
        if there is not None:
            _fill(overlay, overlay.path)
            return True
        for leftover in os.listdir(parent):
            if leftover.startswith(f".{name}.") and leftover.endswith(".new"):
                shutil.rmtree(os.path.join(parent, leftover))
        try:
            temporary = tempfile.mkdtemp(prefix=f".{name}.", suffix=".new", dir=parent)
        except OSError as e:
            e.filename = overlay.path
            raise
        try:
            _fill(overlay, temporary)
            os.chmod(temporary, 0o755)
            os.rename(temporary, overlay.path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return True


def _fill(overlay: Overlay, directory: str) -> None:
    files.write(os.path.join(directory, MARKER), overlay.marker)
    for name in set(os.listdir(directory)) - set(overlay.links) - _OWN:
        os.unlink(os.path.join(directory, name))
    for name, target in overlay.links.items():
        path = os.path.join(directory, name)
        if not os.path.lexists(path) or os.readlink(path) != target:
            files.link(target, path)
    if read(os.path.join(directory, "config.json")) != overlay.config:
        files.write(os.path.join(directory, "config.json"), overlay.config)


def read(path: str) -> bytes:
    """The content of a regular file; nothing if that is absent, or a link."""
    if os.path.islink(path) or not os.path.isfile(path):
        return b""
    with open(path, "rb") as f:
        return f.read()


def _names(directory: str) -> list[str]:
    """What of a drafter is served. Hidden entries are the downloader's own."""
    return [name for name in sorted(os.listdir(directory)) if not name.startswith(".") and name != "config.json"]


def _sizes(directory: str) -> Iterator[tuple[str, int]]:
    for name in _names(directory):
        path = os.path.join(directory, name)
        if not os.path.isdir(path):
            yield name, os.stat(path).st_size
        for parent, _directories, inner in os.walk(path):
            for file in inner:
                whole = os.path.join(parent, file)
                yield os.path.relpath(whole, directory), os.stat(whole).st_size

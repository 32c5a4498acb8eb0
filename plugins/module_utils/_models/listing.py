# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a revision of a model consists of: its files with their sizes and hashes, as the hub's tree tells them."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

SHA = re.compile(r"[0-9a-f]{40}")
REPO = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
RECORD = ".snapshot.json"
"""Hidden, since what is not hidden in a drafter's directory is part of the drafter."""
_CHUNK = 1 << 20


class ListingError(Exception):
    """A listing that can't be meant; says why."""


@dataclasses.dataclass(frozen=True)
class File:
    """hash: the SHA-256 of the content (64 hex digits) if it is kept in LFS, else git's SHA-1 of the blob (40)."""

    path: str
    size: int
    hash: str

    def digest(self) -> Any:
        """A hash object to feed the content to, all of it."""
        if len(self.hash) == 64:
            return hashlib.sha256()
        blob = hashlib.sha1()  # as git names it, not for security
        blob.update(f"blob {self.size}\0".encode())
        return blob

    def fits(self, path: str) -> bool:
        """Whether the content of a file on the disk is this one's."""
        digest, size = self.digest(), 0
        with open(path, "rb") as f:
            while chunk := f.read(_CHUNK):
                size += len(chunk)
                digest.update(chunk)
        return size == self.size and digest.hexdigest() == self.hash


@dataclasses.dataclass(frozen=True)
class Listing:
    repo: str
    revision: str
    files: tuple[File, ...]

    @property
    def digest(self) -> str:
        """What the listing says, in 64 hex digits. Who knows it can take the listing from anybody."""
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        files = {file.path: [file.size, file.hash] for file in self.files}
        return {"repo": self.repo, "revision": self.revision, "files": files}

    def wanted(self, allow: Sequence[str], ignore: Sequence[str]) -> list[File]:
        """The files that a pattern allows, all if there is none, without those that a pattern ignores. A/ stands for A/*."""
        chosen = [f for f in self.files if not allow or _matches(f.path, allow)]
        return [f for f in chosen if not _matches(f.path, ignore)]


def from_plain(data: Any) -> Listing:
    """The listing of a record. Raises ListingError if it is none."""
    try:
        files = [(path, size, digest) for path, (size, digest) in data["files"].items()]
        return _checked(data["repo"], data["revision"], files)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ListingError(f"it is no listing of a model ({type(e).__name__}: {e})") from None


def from_tree(repo: str, revision: str, entries: Iterable[dict[str, Any]]) -> Listing:
    """The listing that the entries of the hub's tree make. Raises ListingError if it can't be one."""
    files = []
    try:
        for entry in entries:
            if entry["type"] == "file":
                lfs = entry.get("lfs") or {}
                files.append((entry["path"], lfs.get("size", entry["size"]), lfs.get("oid") or entry["oid"]))
        return _checked(repo, revision, files)
    except (KeyError, TypeError, AttributeError) as e:
        raise ListingError(f"its tree lacks what a hub tells ({type(e).__name__}: {e})") from None


def _checked(repo: str, revision: str, files: Iterable[tuple[str, int, str]]) -> Listing:
    """Nothing in a listing may point out of the directory that it is laid down in, or go on without a hash.

    A record that was published with the model, out of a snapshot, is left out, as our own takes its place.
    """
    checked = []
    for path, size, digest in sorted(files):
        parts = path.split("/")
        if not path or "\0" in path or "\\" in path or set(parts) & {"", ".", ".."}:
            raise ListingError(f"it holds a file {path!r}, whose name leads elsewhere")
        if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest) or not isinstance(size, int) or size < 0:
            raise ListingError(f"the size or the hash of {path} is none")
        if parts[0] != RECORD:
            checked.append(File(path, size, digest))
    return Listing(repo, revision, tuple(checked))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot on the disk: a directory named by a commit, with a record of what was verified in it, written last."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping

from ansible_collections.llmops.vllm.plugins.module_utils._host import files
from ansible_collections.llmops.vllm.plugins.module_utils._models import listing
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import File, Listing

RECORD = listing.RECORD
JOBS = ".jobs"


def job_of(path: str) -> str:
    """The directory of the job that fetches or serves a snapshot: its logs, and what has come so far.

    Not beside the snapshot, where all belongs to the server's user: root writes into it, and so it is root who has to have put it there.
    """
    parent, revision = os.path.split(path)
    models, name = os.path.split(parent)
    return os.path.join(models, JOBS, name, revision)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a revision of a model lies under the directory of all models."""

    models: str
    repo: str
    revision: str

    @property
    def path(self) -> str:
        return os.path.join(self.models, self.repo.replace("/", "--"), self.revision)

    @property
    def job(self) -> str:
        return job_of(self.path)


@dataclasses.dataclass(frozen=True)
class Record:
    """verified: of each file whose hash was right, the size and the time of its last change (ns) then."""

    listing: Listing
    verified: Mapping[str, tuple[int, int]]


def read(directory: str) -> Record | None:
    """The record of a snapshot; None if there is none that can be understood."""
    data = files.read_json(os.path.join(directory, RECORD))
    try:
        verified = {path: (size, changed) for path, (size, changed) in data["verified"].items()}
        return Record(listing.from_plain(data), verified)
    except (KeyError, TypeError, ValueError, AttributeError, listing.ListingError):
        return None


def write(directory: str, record: Record) -> None:
    data = {
        **record.listing.plain(),
        "digest": record.listing.digest,
        "verified": dict(sorted(record.verified.items())),
    }
    files.write(os.path.join(directory, RECORD), f"{json.dumps(data, indent=1)}\n".encode(), mode=0o644)


def seen(directory: str, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """What a record says of files that were found right just now."""
    states = {path: state(os.path.join(directory, path)) for path in paths}
    return {path: found for path, found in states.items() if found}


def state(path: str) -> tuple[int, int] | None:
    """Size and time of the last change of a regular file, which tell whether it was written to since."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if os.path.isfile(path) and not os.path.islink(path) else None


def untouched(directory: str, record: Record | None, wanted: Iterable[File]) -> set[str]:
    """Of the wanted files, those that were found right and not written to since."""
    if record is None:
        return set()
    known = {file.path: file for file in record.listing.files}
    return {
        file.path
        for file in wanted
        if known.get(file.path) == file
        and file.path in record.verified
        and record.verified[file.path] == state(os.path.join(directory, file.path))
    }

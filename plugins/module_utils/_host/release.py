# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release on the host: a directory named by what it holds, which is there whole or not at all."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, secrets

SECRET = 0o600


class ReleaseError(Exception):
    """A release can't be written; says why, and what to do."""


@dataclasses.dataclass(frozen=True)
class Release:
    """All that makes one release differ from another.

    content: what is told of it in release.json. launcher: the text of launch.py. environment: what goes into env.json, null for a variable
    that is taken away.
    """

    content: Mapping[str, Any]
    launcher: str
    environment: Mapping[str, str | None]

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """What release.json holds: the content, digests of the rest, and the id that is the digest of all that (12 hex digits)."""
        told = {
            **self.content,
            "environment": secrets.digest(json.dumps(self.environment, sort_keys=True)),
            "launcher": hashlib.sha256(self.launcher.encode()).hexdigest()[:32],
        }
        return {**told, "id": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]}

    def files(self) -> dict[str, tuple[bytes, int]]:
        """The files of the release: name, bytes and mode. Only env.json may hold secrets."""
        return {
            "launch.py": (self.launcher.encode(), 0o644),
            "env.json": (_json(self.environment), SECRET),
            "release.json": (_json(self.described), 0o644),
        }


def environment(text: str) -> dict[str, str | None]:
    """The variables in a JSON object, numbers as text.

    Raises ReleaseError, without the value, for what the environment of a process can't hold.
    """
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ReleaseError("The environment is no JSON object.")
    for name, value in data.items():
        if isinstance(value, (bool, dict, list)):
            raise ReleaseError(
                f"The environment variable {name} is {_kind(value)}, and a process can only have text: write it in quotes, as vLLM expects it."
            )
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ReleaseError(
                f"{name!r} can't be an environment variable: it is empty, or has = or a null byte in it."
            )
    return {name: None if value is None else str(value) for name, value in data.items()}


def _kind(value: Any) -> str:
    return "true or false" if isinstance(value, bool) else "a dictionary" if isinstance(value, dict) else "a list"


def owner(name: str) -> tuple[int, int] | None:
    """Ids of the user who is to read env.json and write the cache; None if that is who we are anyway."""
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise ReleaseError(
            f"There is no user {name} on this host: let the role vllm_host make it, or name another."
        ) from None
    if user.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise ReleaseError(
            f"The server is to run as {name}, and {_me()} can't give files to {name}: connect as {name}, or as root (become)."
        )
    return user.pw_uid, user.pw_gid


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def differing(directory: str, release: Release, ids: tuple[int, int] | None) -> list[str]:
    """The files of a release that aren't on the disk as they should be."""
    return [
        name
        for name, (data, mode) in release.files().items()
        if not _is(os.path.join(directory, name), data, mode, ids)
    ]


def _is(path: str, data: bytes, mode: int, ids: tuple[int, int] | None) -> bool:
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or stat.S_IMODE(about.st_mode) != mode:
            return False
        if ids and mode == SECRET and about.st_uid != ids[0]:
            return False
        with open(path, "rb") as f:
            return f.read() == data
    except OSError:
        return False


def write(instance: str, release: Release, ids: tuple[int, int] | None) -> None:
    """Have the release under the instance.

    A new one is made aside and named when it is whole. In one that is there only what differs is written anew.
    """
    releases = os.path.join(instance, "releases")
    os.makedirs(releases, mode=0o755, exist_ok=True)
    final = os.path.join(releases, release.described["id"])
    with files.sole_writer(releases):
        for name in os.listdir(releases):
            if files.is_leftover(name):
                shutil.rmtree(os.path.join(releases, name), ignore_errors=True)
        if os.path.isdir(final):
            clear_torn_evidence(final)
            for name in differing(final, release, ids):
                data, mode = release.files()[name]
                files.write(os.path.join(final, name), data, mode=mode, owner=ids if mode == SECRET else None)
            return
        aside = tempfile.mkdtemp(prefix=f".{os.path.basename(final)}.", suffix=".tmp", dir=releases)
        try:
            for name, (data, mode) in release.files().items():
                files.write(os.path.join(aside, name), data, mode=mode, owner=ids if mode == SECRET else None)
            os.chmod(aside, 0o755)
            os.rename(aside, final)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def clear_torn_evidence(directory: str) -> None:
    """Away with what is no evidence of anything, as a file cut short by a loss of power, or none would ever be written."""
    evidence = os.path.join(directory, "evidence.json")
    if os.path.lexists(evidence) and not files.read_json(evidence):
        os.unlink(evidence)


def make_cache(instance: str, user: str, ids: tuple[int, int] | None) -> None:
    """The only place where the server may write. Another user gets another one, since a server may still use the first's."""
    path = os.path.join(instance, "cache", user)
    os.makedirs(path, mode=0o755, exist_ok=True)
    if ids and os.lstat(path).st_uid != ids[0]:
        os.chown(path, *ids, follow_symlinks=False)


def refuse_what_is_no_link(instance: str) -> None:
    """Raises ReleaseError if what should point at a release is something else, which nobody may take away but who put it there."""
    for name in ("current", "previous"):
        path = os.path.join(instance, name)
        if os.path.lexists(path) and not os.path.islink(path):
            raise ReleaseError(
                f"{path} is no link, though only one that points at a release belongs there: move it away."
            )


class Current(NamedTuple):
    """What release.json of the current release holds, {} if there is none; whether its evidence says that it passed; what was measured."""

    content: dict[str, Any]
    proven: bool
    measured: dict[str, Any]


def current(instance: str) -> Current:
    evidence = files.read_json(os.path.join(instance, "current", "evidence.json"))
    content = files.read_json(os.path.join(instance, "current", "release.json"))
    # Of a release that can't be told nothing is proven: there would be no name to go back to.
    return Current(content, "id" in content and evidence.get("verdict") == "pass", evidence.get("measured") or {})


def _json(data: Any) -> bytes:
    return f"{json.dumps(data, indent=4, sort_keys=True, ensure_ascii=False)}\n".encode()

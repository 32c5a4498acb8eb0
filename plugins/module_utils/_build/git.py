# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to a git repository, where "no" and "I can't know" are different answers."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess

from ansible_collections.llmops.vllm.plugins.module_utils._host import owners, programs

FULL = re.compile(r"[0-9a-f]{40}")


def ask(repository: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a git command; 127 if it can't be run."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        # A repository's configuration can name programs to run. What belongs to several users git refuses by itself.
        owner = owners.become(os.stat(repository).st_uid)
        if os.geteuid() != 0:  # it may belong to someone else
            own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
            environment.update(own)
        done = programs.run(
            ["git", "-C", repository, *arguments],
            stderr=subprocess.DEVNULL,
            env=environment,
            **owner,
        )
    except (OSError, KeyError):
        return 127, ""
    return done.returncode, done.stdout.decode(errors="replace")


def commit_of(repository: str, revision: str) -> str | None:
    """The 40 digits of a commit that the repository holds."""
    code, said = ask(repository, "rev-parse", "--verify", "--quiet", revision + "^{commit}")
    return said.strip() if code == 0 and FULL.fullmatch(said.strip()) else None


def is_ancestor(repository: str, ancestor: str, commit: str) -> bool | None:
    """Whether the history of a commit holds another. None where the repository can't tell.

    A shallow clone lacks the history behind its edge, so its "no" means nothing; its "yes" does.
    """
    code, _said = ask(repository, "merge-base", "--is-ancestor", ancestor, commit)
    if code == 0:
        return True
    return False if code == 1 and not is_shallow(repository) else None


def is_shallow(repository: str) -> bool:
    return ask(repository, "rev-parse", "--is-shallow-repository")[1].strip() != "false"


def is_clean(tree: str) -> bool | None:
    """Whether the tracked files of a working tree are as they were committed. None where that can't be told."""
    code, said = ask(tree, "status", "--porcelain", "--untracked-files=no")
    return None if code else not said.strip()


def blobs(repository: str, commit: str, folder: str) -> dict[str, str]:
    """The files of a commit under a folder, with the digests of their contents; links and submodules left out."""
    code, said = ask(repository, "ls-tree", "-r", "-z", commit, folder + "/")
    entries = [entry.partition("\t") for entry in said.split("\0") if entry] if code == 0 else []
    return {path: about.split()[2] for about, _tab, path in entries if about.startswith("100")}


def blob_of(path: str) -> str:
    """The digest that git would give a file."""
    with open(path, "rb") as f:
        content = f.read()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

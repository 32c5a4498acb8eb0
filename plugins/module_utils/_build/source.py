# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source tree of one commit, with commits and patches on top, out of a repository that all builds of a host share."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
import re
import shutil

from ansible_collections.llmops.vllm.plugins.module_utils._build import git
from ansible_collections.llmops.vllm.plugins.module_utils._build.causes import BuildError
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console
from ansible_collections.llmops.vllm.plugins.module_utils._build.request import Request
from ansible_collections.llmops.vllm.plugins.module_utils._host import locks, secrets

# What is compiled. A wheel's kernels are as old as the wheel.
_COMPILED = re.compile(r"^(?:csrc|cmake|rust)/|(?:^|/)CMakeLists\.txt$|\.(?:cu|cuh|c|cc|cpp|h|hpp|rs)$")
_WHEEL_VERSION = re.compile(r"(?:^|/)vllm[a-z_]*-(\d+(?:\.\d+)*)")


@dataclasses.dataclass(frozen=True)
class Source:
    """A checked-out tree. commit: its HEAD, which is the wanted one unless something was put on top."""

    tree: str
    repository: str
    commit: str


def obtain(request: Request, console: Console, tree: str) -> Source:
    """Fetch what is missing, and check out what is wanted."""
    repository = os.path.join(request.means.home, "cache", _name(request.means.repo))
    os.makedirs(os.path.dirname(repository), exist_ok=True)
    with locks.locked(repository + ".lock"):
        console.step(f"fetch {request.wanted.commit[:12]} from {request.means.repo}")
        _prepare(repository, console)
        _fetch(repository, request, console)
        console.step("check it out")
        _check_out(repository, request, console, tree)
        head = git.commit_of(tree, "HEAD") or ""
        _git(console, repository, "update-ref", _ref(head), head)
    return Source(tree, repository, head)


def compiled_changes(source: Source, request: Request) -> tuple[str, list[str]]:
    """The commit or tag that a wheel's kernels were made from, if that is known, and what was changed of them since."""
    wheel = _WHEEL_VERSION.search(request.wanted.wheel)
    if git.FULL.fullmatch(request.wanted.wheel):
        base = request.wanted.wheel
    elif wheel:
        base = f"v{wheel[1]}"
    else:
        base = git.ask(source.tree, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")[1].strip()
    if not base or not git.commit_of(source.tree, base):
        return "", []
    changed = git.ask(source.tree, "diff", "--name-only", base, source.commit)[1].splitlines()
    return base, [path for path in changed if _COMPILED.search(path)]


def _prepare(repository: str, console: Console) -> None:
    """Make the repository, or clear away what a killed git has left in it. Nobody else is at it: it is locked."""
    stale = [os.path.join(repository, "*.lock"), os.path.join(repository, "refs", "**", "*.lock")]
    stale.append(os.path.join(repository, "objects", "pack", "tmp_*"))
    for pattern in stale:
        for path in glob.glob(pattern, recursive=True):
            os.unlink(path)
    console.run(["git", "init", "--quiet", "--bare", repository], "git init")
    _git(console, repository, "worktree", "prune")


def _fetch(repository: str, request: Request, console: Console) -> None:
    commits = [request.wanted.commit, *request.wanted.picks]
    # A commit counts as fetched only if a ref names it: then its whole history came with it.
    if all(git.commit_of(repository, _ref(commit)) for commit in commits):
        return
    wanted = ["+refs/tags/v*:refs/tags/v*"]
    wanted += [f"+{request.means.ref}:refs/fetched/head"] if request.means.ref else []
    remote = _remote(request.means.repo)
    fetch = ("fetch", "--quiet", "--no-tags", "--update-shallow", "origin")
    _git(console, repository, *fetch, *wanted, environment=remote)
    for commit in commits:
        if not git.commit_of(repository, commit):
            # A ref that was forced on leaves its old commits behind; a server may still give them by their name.
            code, said = console.attempt(["git", "-C", repository, *fetch, commit], environment=remote)
            if code and "network" not in said and not git.commit_of(repository, commit):
                raise _missing(repository, request, commit)
        _git(console, repository, "update-ref", _ref(commit), commit)


def _missing(repository: str, request: Request, commit: str) -> BuildError:
    head = git.commit_of(repository, "refs/fetched/head")
    where = f"{request.means.ref}, which is at {head} now," if head else "what was fetched"
    return BuildError(
        f"{request.means.repo} has no commit {commit}: neither {where} nor the server offers it",
        "Check vllm_build_commit and vllm_build_ref",
    )


def _check_out(repository: str, request: Request, console: Console, tree: str) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    _git(console, repository, "worktree", "add", "--force", "--detach", tree, request.wanted.commit)
    # The same on every host, so that the commit made here has the same name everywhere.
    date = git.ask(tree, "show", "--no-patch", "--format=%cI", "HEAD")[1].strip()
    names = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _nobody(date).items()}
    for commit in request.wanted.picks:
        committer = {name: value for name, value in names.items() if "COMMITTER" in name}
        code, _said = console.attempt(["git", "-C", tree, "cherry-pick", commit], environment=committer)
        if code:
            raise BuildError(
                f"the commit {commit} does not apply on {request.wanted.commit}", "Take another of the two"
            )
    for patch in request.wanted.patches:
        path = os.path.join(os.path.dirname(tree), "patch")
        with open(path, "w", encoding="utf-8") as f:
            f.write(patch.text)
        code, _said = console.attempt(["git", "-C", tree, "apply", "--index", "--whitespace=nowarn", path])
        if code:
            raise BuildError(f"the patch {patch.name} does not apply on {request.wanted.commit}", "Adapt it")
        _git(console, tree, "commit", "--quiet", "--no-verify", "-m", f"Apply {patch.name}", environment=names)


def _nobody(date: str) -> dict[str, str]:
    return {"NAME": "llmops.vllm", "EMAIL": "llmops.vllm@localhost", "DATE": date}


def _git(console: Console, repository: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    words = f"git {next((a for a in arguments if not a.startswith('-') and '=' not in a), '')}"
    console.run(["git", "-C", repository, *arguments], words, environment=environment)


def _remote(url: str) -> dict[str, str]:
    """The address by way of the environment, since it may hold a password, and arguments are there for all to see."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "remote.origin.url",
        "GIT_CONFIG_VALUE_0": url,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    }


def _ref(commit: str) -> str:
    return f"refs/commits/{commit}"


def _name(url: str) -> str:
    """A directory for a repository: its own name, and a digest of its address without who asks."""
    address = secrets.bare(url)
    return f"{os.path.basename(address.rstrip('/')).removesuffix('.git')}-{hashlib.sha256(address.encode()).hexdigest()[:8]}.git"

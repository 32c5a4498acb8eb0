# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a venv holds a whole vLLM. No single check is enough, so there are many, and each has a finding of its own."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._build import git
from ansible_collections.llmops.vllm.plugins.module_utils._build.installed import Distribution, Installed
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, owners, programs

SHOWN = 3  # files named in a finding
KINDS = ("dir_info", "vcs_info", "archive_info")  # one of them stands in direct_url.json
_DIGEST = re.compile(r"(?:sha(?:256|384|512)=[\w-]+)?", re.ASCII)
_SIZE = re.compile(r"[0-9]*")
PATIENCE = 600  # seconds for the first import of an engine on a cold disk


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that speaks against a build. key: the check; why: a sentence; evidence: the file to look at."""

    key: str
    why: str
    evidence: str = ""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a build is held against. Empty: nothing is known of it."""

    commit: str = ""
    repository: str = ""
    stamp: str = ""


def quick(found: Installed, wanted: Wanted) -> list[Finding]:
    """What a look at names, sizes and marks tells: every file there, nothing left over, everything of one commit."""
    return list(_looks(found, wanted, hashes=False))


def full(found: Installed, wanted: Wanted) -> list[Finding]:
    """That, and every file's content, its sources against the commit's, and an engine that really starts."""
    findings = [*_looks(found, wanted, hashes=True), *_sources(found, wanted)]
    # What is known to be broken isn't run: it could only say so once more, and less clearly.
    return findings or list(_starts(found))


def fingerprint(found: Installed) -> str:
    """A digest of what was installed, by which a later change is noticed."""
    said = hashlib.sha256()
    for distribution in found.distributions:
        said.update("\n".join([distribution.path[len(found.site) :], *(distribution.record or [])]).encode())
    return said.hexdigest()


def _looks(found: Installed, wanted: Wanted, hashes: bool) -> Iterator[Finding]:
    yield from _tools(found)
    yield from _leftovers(found)
    yield from _distributions(found)
    yield from _files(found, hashes)
    yield from _commit(found, wanted)
    yield from _stamp(found, wanted)


def _tools(found: Installed) -> Iterator[Finding]:
    if not os.access(found.python, os.X_OK):
        yield Finding("python", f"There is no usable Python in the venv {found.venv}.", found.python)
    if not found.distributions:
        yield Finding("installed", f"No vLLM is installed in {found.venv}.", found.site)
    elif not os.access(found.program, os.X_OK):
        yield Finding("program", f"There is no program {found.program}.", found.program)


def _leftovers(found: Installed) -> Iterator[Finding]:
    if found.leftovers:
        names = ", ".join(found.leftovers)
        yield Finding("leftovers", f"An installer was interrupted and left {names} behind.", found.site)


def _distributions(found: Installed) -> Iterator[Finding]:
    if len(found.whole) > 1:
        names = ", ".join(os.path.basename(d.path) for d in found.whole)
        yield Finding("distribution", f"Several installations of vLLM lie over each other: {names}.", found.site)
    if found.distributions and not found.whole:
        yield Finding("distribution", "There is a name, but no vLLM behind it.", found.distributions[0].path)
    for distribution in found.whole:
        # An installer writes INSTALLER at the end, and then RECORD with all that there is: path, digest and size.
        rows = _rows(distribution)
        if not any(row[0].endswith("/INSTALLER") for row in rows if row) or not all(_is_row(found.site, r) for r in rows):
            yield Finding("record", "The installation was not finished: it has no whole RECORD.", distribution.path)
        told = distribution.direct_url
        origin = any(isinstance(told.get(kind), dict) for kind in KINDS)
        if told and not (origin and isinstance(told.get("url"), str)):
            yield Finding("record", "Its direct_url.json doesn't tell where it came from.", distribution.path)


def _rows(distribution: Distribution) -> list[list[str]]:
    """The rows of RECORD: path, digest and size of each file; none if it can't be read."""
    try:
        return list(csv.reader(distribution.record or []))
    except csv.Error:
        return []


def _is_row(site: str, row: list[str]) -> bool:
    if len(row) != 3 or "\0" in row[0] or not _DIGEST.fullmatch(row[1]) or not _SIZE.fullmatch(row[2]):
        return False
    return not (row[1] and os.path.isdir(os.path.join(site, row[0])))


def _files(found: Installed, hashes: bool) -> Iterator[Finding]:
    for distribution in found.whole:
        missing, wrong = _compare(found.site, distribution, hashes)
        evidence = os.path.join(distribution.path, "RECORD")
        if missing:
            yield Finding("files", f"{_named(missing)} of vLLM missing from {found.site}.", evidence)
        if wrong:
            yield Finding("files", f"{_named(wrong)} of vLLM not as installed.", evidence)


def _compare(site: str, distribution: Distribution, hashes: bool) -> tuple[list[str], list[str]]:
    """The files of RECORD that are missing, and those with another size or, if asked, other content."""
    missing, wrong = [], []
    for row in _rows(distribution):
        if not _is_row(site, row) or row[0].endswith(".pyc"):  # Python compiles anew whenever it likes
            continue
        path, told, size = os.path.normpath(os.path.join(site, row[0])), row[1], row[2]
        try:
            there = os.stat(path)
        except OSError:
            missing.append(row[0])
            continue
        torn = size and there.st_size != int(size)
        if torn or (hashes and told and _digest(path, told.partition("=")[0]) != told):
            wrong.append(row[0])
    return missing, wrong


def _digest(path: str, algorithm: str) -> str:
    """As RECORD has it; empty if the file can't be read."""
    said = hashlib.new(algorithm)
    try:
        with open(path, "rb") as f:
            for chunk in iter(lambda: f.read(1 << 20), b""):
                said.update(chunk)
    except OSError:
        return ""
    return f"{algorithm}={base64.urlsafe_b64encode(said.digest()).rstrip(b'=').decode()}"


def _commit(found: Installed, wanted: Wanted) -> Iterator[Finding]:
    """All places that tell the commit have to tell the same, and what was wanted."""
    if found.dirty:
        yield Finding("dirty", f"vLLM {found.version} was built from a tree with uncommitted changes.", found.root)
    said = found.says()
    if found.editable:
        head = git.commit_of(found.root, "HEAD")
        said.update({"the HEAD of its source tree": head} if head else {})
        if git.is_clean(found.root) is False:
            yield Finding(
                "dirty", f"The tree {found.root} has uncommitted changes, and this vLLM runs them.", found.root
            )
    told = {"wanted": wanted.commit, **said} if wanted.commit else said
    shortest = min(told.values(), key=len, default="")
    if any(not commit.startswith(shortest) for commit in told.values()):
        words = ", ".join(f"{place} {commit}" for place, commit in told.items())
        yield Finding("commit", f"It isn't one commit: {words}.", found.root)


def _stamp(found: Installed, wanted: Wanted) -> Iterator[Finding]:
    if not wanted.stamp:
        return
    stamp = files.read_json(wanted.stamp)
    if not stamp.get("venv"):
        yield Finding("stamp", f"The stamp {wanted.stamp} is missing, so the build was not finished.", wanted.stamp)
        return
    stamped = os.path.join(os.path.dirname(wanted.stamp), stamp["venv"])
    if os.path.realpath(stamped) != os.path.realpath(found.venv):
        yield Finding("stamp", f"The stamp is for {stamped}, which {found.venv} is not.", wanted.stamp)
    elif stamp.get("fingerprint") != fingerprint(found):
        yield Finding("stamp", "What is installed was changed since it was stamped.", wanted.stamp)


def _sources(found: Installed, wanted: Wanted) -> Iterator[Finding]:
    """The Python files, byte for byte as the commit has them."""
    commit = wanted.commit or next((c for c in found.says().values() if git.FULL.fullmatch(c)), "")
    if not (wanted.repository and commit):
        return
    there = {p: blob for p, blob in git.blobs(wanted.repository, commit, "vllm").items() if p.endswith(".py")}
    if not there:
        yield Finding("sources", f"{wanted.repository} doesn't hold the commit {commit}.", wanted.repository)
    other = [path for path, blob in there.items() if _blob(os.path.join(found.root, path)) != blob]
    if other:
        yield Finding("sources", f"{_named(other)} not as in the commit {commit}.", found.root)


def _blob(path: str) -> str:
    try:
        return git.blob_of(path)
    except OSError:
        return ""


# vLLM itself chooses the kernels that this host can run: those for the CPU come for several instruction sets. It only warns if they
# can't be loaded, so whether they are there is asked of torch.
_KERNELS = """
import importlib.util
if importlib.util.find_spec("vllm.platforms"):
    import torch
    from vllm.platforms import current_platform
    current_platform.import_kernels()
    if not any(name.startswith("_C") for name in torch._C._dispatch_get_all_op_names()):
        raise SystemExit("it loaded no kernels for this host")
else:
    import vllm._C
"""


def _starts(found: Installed) -> Iterator[Finding]:
    """Run the program for its version, with the kernels loaded, in a process of its own: a torn library kills who loads it.

    Root runs it as whoever can change it.
    """
    kernels = "" if found.device in ("empty", "tpu") else _KERNELS
    code = f"{kernels}import runpy, sys; sys.argv = ['vllm', '--version']; runpy.run_path({found.program!r}, run_name='__main__')"
    try:
        owner = owners.become(owners.whose(found.python, found.program, found.site, found.root))
        done = programs.run(
            [found.python, "-I", "-c", code],
            stderr=subprocess.STDOUT,
            cwd="/",
            env=owners.environment(),
            timeout=PATIENCE,
            **owner,
        )
    except KeyError as e:
        yield Finding("import", f"vLLM is not started, since it is in the hands of a user whom the host does not know: {e.args[0]}.", found.venv)
        return
    except (OSError, subprocess.TimeoutExpired) as e:
        yield Finding("import", f"vLLM does not start: {e}.", found.python)
        return
    said = done.stdout.decode(errors="replace").strip().splitlines()
    if done.returncode or not said:
        yield Finding("import", _why(done.returncode, said), found.python)


def _why(code: int, said: list[str]) -> str:
    if code == -signal.SIGILL:
        return "vLLM does not start: SIGILL ended it, as kernels do that were compiled for another kind of processor."
    if code < 0:
        return f"vLLM does not start: {signal.Signals(-code).name} ended it, as a damaged library does."
    library = re.search(r"(lib\S+): cannot open shared object file", "\n".join(said))
    if library:
        return f"vLLM does not start: the host lacks {library[1]}; install the package that brings it."
    # What it only warns of, before we say that there are no kernels.
    unloaded = re.search(r"Failed to import from (vllm\._\w+: .+)", "\n".join(said))
    if unloaded:
        return f"vLLM does not start: its kernels can't be loaded, {unloaded[1]}"
    return f"vLLM does not start: {said[-1] if said else f'exit code {code}'}"


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more} {'is' if len(paths) == 1 else 'are'}"

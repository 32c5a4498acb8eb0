# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that can be learned of a host's servers without touching them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import judges, masking, namespaces, probing
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, WARNING, Finding, ranked, worst
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.probing import Asked
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.servers import Server
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, programs
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import Scanner

CHUNK = 768 * 1024
LONGEST = 512 * 2**20  # bytes of a log's end that are read
PATIENCE = 30.0  # seconds in which they have to be judged: a hostile log takes hours
JOURNAL = 200_000  # entries
PROPERTIES = "Id,Restart,KillMode,Type,NRestarts,EnvironmentFiles,InvocationID"
ORPHANS = (
    "Their server is gone, and they may hold GPUs. End them (kill PID) once you are sure that nothing else needs them."
)


def describe(server: Server) -> dict[str, Any]:
    """What a server is, and what it runs, without any judgement."""
    subject = Subject(server, {}, None)

    def look() -> dict[str, Any]:
        subject.read()
        return {"target": subject.target, "drafter": subject.drafter, "build": subject.build}

    told, failed = _public(server)
    if failed:
        return {
            **told,
            "hidden": [masking.text(f"all but its pid: {failed}")],
            "target": "",
            "drafter": "",
            "build": None,
        }
    try:
        return {**told, **masking.shown("", namespaces.at_files(server.pid, look))}
    except Exception as e:
        hidden = [*told["hidden"], masking.text(f"its files: {e}")]
        return {**told, "hidden": hidden, "target": "", "drafter": "", "build": None}


def examine(server: Server, asked: Asked | None = None) -> dict[str, Any]:
    """What is told of a server: what it is, what was read of it, and the findings. asked: how to probe it, None for not at all."""
    public, failed = _public(server)
    try:
        told = _told(server, asked)
        shown = masking.shown("", told["shown"])
    # Whoever may start a process may show us anything, and the others are to be judged all the same.
    except Exception as e:
        told, shown = {"findings": [dataclasses.asdict(judges.unseen(server.pid, "All", e))]}, {}
    if failed:
        told["findings"].append(dataclasses.asdict(judges.unseen(server.pid, "What is to be shown", failed)))
    findings = [masking.shown("", finding) for finding in told["findings"]]
    return {
        **public,
        **shown,
        "health": worst(Finding(**finding) for finding in findings),
        "findings": findings,
    }


def _public(server: Server) -> tuple[dict[str, Any], Exception | None]:
    """What may be shown of a server. Where that can't be had, whose it is and why; all else is there, and empty."""
    try:
        return server.public(), None
    except Exception as e:
        bare = Server(server.pid, [], "", {}, None, "", server.user, 0, "", "", "", "", [], {}, [])
        told = {**dataclasses.asdict(bare), "port": 0, "host": "", "python": ""}
        del told["started"]
        return told, e


def of_the_host(orphans: list[str], unread: list[str]) -> list[Finding]:
    """What is wrong beside the servers that are there."""
    found = [
        Finding("sight", WARNING, f"What looks like a server can't be read: {one}.", "/proc", judges.UNREAD)
        for one in unread
    ]
    if orphans:
        found.append(Finding("process", ERROR, f"Engines without a server: {'; '.join(orphans)}.", "/proc", ORPHANS))
    return ranked(found)


def _told(server: Server, asked: Asked | None) -> Any:
    """By parts, so that where one can't be had the others are judged all the same."""
    unit = _unit(server.unit)
    subject = Subject(server, unit, None, int(unit.get("NRestarts") or 0))
    try:
        subject.log = _log(server, unit)
    except Exception as e:
        subject.unseen.append(judges.unseen(server.pid, "The log", e))

    def result() -> dict[str, Any]:
        return {"findings": [dataclasses.asdict(f) for f in judges.judge(subject)], "shown": subject.shown()}

    def look() -> dict[str, Any]:
        subject.read()
        return result()

    try:
        subject.hear(namespaces.at_network(server.pid, lambda: subject.ask(not namespaces.other_network(server.pid))))
        if asked:
            subject.probed = probing.probe(subject, asked)
    except Exception as e:
        subject.unseen.append(judges.unseen(server.pid, "The network", e))
    try:
        return namespaces.at_files(server.pid, look)
    except Exception as e:
        subject.blind = True
        subject.version = subject.version or str(subject.facts.get("version") or "")
        subject.unseen.append(judges.unseen(server.pid, "The files", e))
        return result()


def _unit(name: str) -> dict[str, str]:
    if not name:
        return {}
    try:
        done = programs.run(
            ["systemctl", "show", "--property", PROPERTIES, "--", name],
            text=True, errors="replace", timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def _log(server: Server, unit: dict[str, str]) -> Judge | None:
    """The judge of its last launch's log, from a file behind its output or from the journal; None where there is neither."""
    if server.log.startswith(("socket:", "pipe:")) and unit.get("InvocationID"):
        return _judged([_journal(unit["InvocationID"])])
    # By the descriptor, so that one that was renamed or removed is found as well, whatever root it lies under.
    return _judged(_written(f"/proc/{server.pid}/fd/1")) or _judged(_written(f"/proc/{server.pid}/fd/2"))


def _judged(data: Iterable[bytes]) -> Judge | None:
    judge = Judge(Profile())
    scanner = Scanner(judge)
    deadline = time.monotonic() + PATIENCE
    for piece in data:
        scanner.feed(piece, 0.0)
        if time.monotonic() > deadline:
            raise RuntimeError(f"that takes more than {PATIENCE:g} s")
    return (scanner.glance(0.0) or judge) if judge.lines else None


def _written(path: str) -> Iterator[bytes]:
    """The end of a file; nothing if it is none, or may not be read."""
    try:
        with open(path, "rb", opener=files.ordinary) as f:
            size = os.fstat(f.fileno()).st_size
            f.seek(max(size - LONGEST, 0))
            left = min(size, LONGEST)  # and not what is written meanwhile, which may have no end
            while data := f.read(min(CHUNK, left)):
                left -= len(data)
                yield data
    except OSError:
        return


def _journal(invocation: str) -> bytes:
    command = ["journalctl", "--no-pager", "-o", "cat", "-n", str(JOURNAL), f"_SYSTEMD_INVOCATION_ID={invocation}"]
    try:
        said: bytes = programs.run(command, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return said

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vLLM servers of a host, however they were started, read from /proc."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import cmdline, masking, origin, placement
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.placement import Gpus
from ansible_collections.llmops.vllm.plugins.module_utils._host import leftovers, ports, processes

PYTHON = re.compile(r"(?:python|pypy)[\d.]*$|vllm$")
DEFAULT_PORT = 8000


@dataclasses.dataclass(frozen=True)
class Server:
    """One API server with its engine.

    argv: as it was started; model and flags: what that says. environment: None where it may not be read. cwd: empty likewise.
    uptime: seconds. workers: its processes besides, engines by their names. keeper: what keeps it, in words; unit: if that is systemd.
    log: the file behind its output, or what else is; hidden: what this user may not see. placement: see placement.of.
    started: as processes.start_ticks has it, so that no other process is taken for it later.
    """

    pid: int
    argv: list[str]
    model: str
    flags: dict[str, Any]
    environment: Mapping[str, str] | None
    cwd: str
    user: str
    uptime: float
    parent: str
    keeper: str
    unit: str
    log: str
    listens: list[int]
    workers: dict[int, str]
    hidden: list[str]
    placement: dict[str, Any] = dataclasses.field(default_factory=dict)
    started: int | None = None

    @property
    def speculative(self) -> dict[str, Any]:
        told = self.flags.get("speculative-config")
        return told if isinstance(told, dict) else {}

    @property
    def port(self) -> int:
        told = self.flags.get("port")
        if isinstance(told, int) and not isinstance(told, bool) and 0 < told < 2**16:
            return told
        return self.listens[0] if "config" in self.flags and self.listens else DEFAULT_PORT

    @property
    def host(self) -> str:
        """The address that it was told to listen on; all of the host's where it was told none."""
        return str(self.flags.get("host") or "0.0.0.0")

    @property
    def headless(self) -> bool:
        return bool(self.flags.get("headless"))

    @property
    def python(self) -> str:
        """The Python that runs it: that of the program's own directory, which is a venv's if it is in one, or of the venv that is active."""
        program = next((word for word in self.argv if os.path.basename(word) == "vllm" and "/" in word), "")
        found = os.path.join(os.path.dirname(program), "python") if program else self.argv[0]
        active = self.variable("VIRTUAL_ENV") or self.variable("CONDA_PREFIX")
        if "/" not in found:
            return os.path.join(active, "bin", found) if active else found
        return os.path.normpath(os.path.join(self.cwd, found)) if self.cwd else found

    @property
    def key(self) -> str:
        """The key that it asks its clients for; empty where it has none, or none that may be read."""
        told = self.flags.get("api-key")
        keys = [key for key in (told if isinstance(told, list) else [told]) if isinstance(key, str) and key]
        return keys[0] if keys else self.variable("VLLM_API_KEY")

    def variable(self, name: str) -> str:
        return (self.environment or {}).get(name, "")

    def public(self) -> dict[str, Any]:
        """What may be shown: all secrets are masked."""
        told = {
            **dataclasses.asdict(self),
            "uptime": round(self.uptime),
            "port": self.port,
            "host": self.host,
            "python": self.python,
        }
        del told["started"]
        if self.environment is not None:
            told["environment"] = {name: value for name, value in self.environment.items() if _telling(name)}
        return {**masking.shown("", told), "argv": masking.arguments(self.argv)}


def find() -> tuple[list[Server], list[str], list[str]]:
    """All servers; what is left of servers that are gone, engines without one, in words; and what looks like a server and can't be read."""
    parents = {pid: parent(pid) for pid in processes.living()}
    started = {
        pid: processes.start_ticks(pid) for pid in parents
    }  # before all else, so that this is of the same process
    told = {pid: processes.command_line(pid) for pid in parents}
    found = {
        pid: words
        for pid, argv in told.items()
        if _is_python(argv) and (words := cmdline.words_of_server(argv)) is not None
    }
    # What a server forks carries its command line along.
    leaders = [pid for pid in found if not any(above in found for above in ancestors(pid, parents))]
    lost = [
        pid
        for pid in parents
        if processes.name(pid).startswith(leftovers.ENGINE) and not {pid, *ancestors(pid, parents)} & set(leaders)
    ]
    host = Gpus.ask() if leaders or lost else Gpus()
    servers, unread = [], []
    for pid in leaders:
        try:
            server = _look(pid, told[pid], found[pid], parents, host)
            servers.append(dataclasses.replace(server, started=started[pid]))
        # Whoever may start a process may name it like a server, and the others are to be found all the same.
        except Exception as e:
            unread.append(f"pid {pid}, of {leftovers.user(pid)} ({type(e).__name__}: {masking.text(str(e))})")
    orphans = [
        masking.text(
            f"pid {pid} ({processes.name(pid)}), of {leftovers.user(pid)}"
            + "".join(f", on GPU {gpu['index']} with {_memory(gpu['memory_used'])}" for gpu in host.used_by([pid]))
        )
        for pid in lost
    ]
    return servers, orphans, unread


def own(pid: int) -> list[int]:
    """A process and all that come of it, as they are now."""
    parents = {one: parent(one) for one in processes.living()}
    return [pid, *(one for one in parents if pid in ancestors(one, parents))]


def ancestors(pid: int, parents: Mapping[int, int]) -> list[int]:
    way: list[int] = []
    while (pid := parents.get(pid, 0)) > 0 and pid not in way:
        way.append(pid)
    return way


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            stat = f.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _is_python(argv: list[str]) -> bool:
    return bool(argv) and bool(PYTHON.match(os.path.basename(argv[0])))


def _memory(mib: int | None) -> str:
    return "memory that the driver does not tell" if mib is None else f"{mib} MiB"


def _look(pid: int, argv: list[str], words: list[str], parents: Mapping[int, int], host: Gpus) -> Server:
    model, flags = cmdline.parse(words)
    above = ancestors(pid, parents)
    environment, cwd, log = _environment(pid), _link(pid, "cwd"), _log(pid)
    hidden = [
        name
        for name, known in (
            ("its environment", environment is not None),
            ("its working directory", cwd),
            ("where it writes its log", log),
        )
        if not known
    ]
    workers = {child: processes.name(child) for child in parents if pid in ancestors(child, parents)}
    server = Server(
        pid=pid,
        argv=argv,
        model=model,
        flags=flags,
        environment=environment,
        cwd=cwd,
        user=leftovers.user(pid),
        uptime=processes.uptime(pid) or 0.0,
        parent=masking.text(processes.describe(above[0])) if above else "",
        keeper=origin.keeper(pid, above),
        unit=origin.unit(processes.control_group(pid)),
        log=log,
        listens=ports.listened(pid),
        workers=workers,
        hidden=hidden,
    )
    asked = (pid, *workers) if placement.spans_hosts(flags) else ()
    peers = {peer for own in asked for peer in ports.connected(own, besides=(server.port,))}
    return dataclasses.replace(server, placement=placement.of(flags, environment, (pid, *workers), host, peers))


def _environment(pid: int) -> dict[str, str] | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            entries = f.read().split(b"\0")
    except OSError:
        return None
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def _log(pid: int) -> str:
    """The file behind its output, or its errors where only these go to one; else what is behind its output."""
    out, err = _link(pid, "fd/1"), _link(pid, "fd/2")
    return err if not _is_file(out) and _is_file(err) else out


def _is_file(path: str) -> bool:
    return path.startswith("/") and not path.startswith("/dev/")


def _telling(name: str) -> bool:
    return name.startswith(
        ("VLLM_", "HF_", "HUGGING", "CUDA", "NCCL_", "TORCH", "PYTHON", "TRANSFORMERS_", "LLMOPS_", "GLOO_", "RAY_")
    )

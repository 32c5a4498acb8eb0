"""a, b. What a server's log says: how soon it is known, and what the waiting costs the host.

log_wait beside the two ways that people wait for a server's log today: ansible.builtin.wait_for with search_regex, and a loop that looks at
the last two lines every 15 s. All watch the same file from plays of their own, over a local connection, or on a host over SSH.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.llmops.vllm.tests.bench.results import CLONE, Result, Target
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

LOGS = CLONE / "tests/corpus/logs"
PATTERN = "Application startup complete"
TIMEOUT = 60
MEGABYTES = 200
WAYS = {
    "log_wait": {"llmops.vllm.log_wait": {"path": "{log}", "pid": "{pid}", "timeout": TIMEOUT}},
    "wait_for": {"ansible.builtin.wait_for": {"path": "{log}", "search_regex": PATTERN, "timeout": TIMEOUT}},
    "tail -2 every 15 s": {
        "ansible.builtin.shell": f"tail -2 {{log}} | grep -q '{PATTERN}'",
        "until": "told is succeeded",
        "retries": TIMEOUT // 15,
        "delay": 15,
    },
}
NOTHING = {"nothing": {"ansible.builtin.wait_for": {"timeout": TIMEOUT}}}
WRITER = """
import os, sys, time
print(os.getpid(), flush=True)
for line in sys.stdin:
    with open(sys.argv[1], "ab") as f:
        f.write(bytes.fromhex(line))
    print(time.time(), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """When the task had ended, by this machine's clock, and what it told."""

    at: float
    told: dict


class Log:
    """A log on a host, or on this machine if there is none; and the process that writes it."""

    def __init__(self, host: Host | None, home: Path, start: bytes) -> None:
        self.host, self.path = host, "/srv/server.log" if host else str(home / "server.log")
        if host:
            host.run(f"cat > {self.path}", input=start.decode())
        else:
            Path(self.path).write_bytes(start)
        words = ["-uc", WRITER, self.path]
        command = host.ssh("python3", "-uc", f"'{WRITER}'", self.path) if host else [sys.executable, *words]
        self._writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self._writer.stdout.readline())

    def write(self, data: bytes) -> float:
        """Appends; returns when. The clock of a host of the fleet is this machine's."""
        self._writer.stdin.write(data.hex() + "\n")
        self._writer.stdin.flush()
        return float(self._writer.stdout.readline())

    def die(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._writer.stdin.close()
        self._writer.wait()
        self._writer.stdout.close()


class Watchers:
    """A play for each way, on the log."""

    def __init__(self, log: Log, fleet: Fleet | None, home: Path, ways: dict[str, dict]) -> None:
        self.home, self.ways = home, list(ways)
        self._plays = [self._play(n, task, log, fleet) for n, task in enumerate(ways.values())]
        wait_for("every play waits", lambda: all((home / f"{n}.begun").exists() for n in range(len(ways))), 60)
        time.sleep(5)  # from the task before to the waiting itself, which shows nowhere for all three

    def _play(self, number: int, task: dict, log: Log, fleet: Fleet | None) -> subprocess.Popen[bytes]:
        mark = self.home / str(number)
        wait = json.loads(json.dumps(task).replace("{log}", log.path).replace("{pid}", str(log.pid)))
        here = {
            "delegate_to": "localhost",
            "connection": "local",
            "vars": {"ansible_python_interpreter": sys.executable},
        }
        tasks = [
            {"ansible.builtin.file": {"path": f"{mark}.begun", "state": "touch", "mode": "0600"}, **here},
            {**wait, "register": "told", "ignore_errors": True},
            {
                "ansible.builtin.copy": {
                    "content": "{{ lookup('pipe', 'date +%s.%N') }} {{ told | to_json }}",
                    "dest": f"{mark}.ended",
                    "mode": "0600",
                },
                **here,
            },
        ]
        book = mark.with_suffix(".yml")
        book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        where = ["-i", str(fleet.inventory)] if fleet else ["-i", "localhost,", "-c", "local"]
        env = {**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg")}
        if not fleet:
            env["ANSIBLE_PYTHON_INTERPRETER"] = sys.executable
        command = [Path(sys.executable).with_name("ansible-playbook"), *where, book]
        return subprocess.Popen(command, cwd=CLONE, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ended(self) -> dict[str, Ended]:
        """Of each way, after all have ended."""
        told = {}
        for number, (way, play) in enumerate(zip(self.ways, self._plays, strict=True)):
            play.wait()
            when, _unused, text = (self.home / f"{number}.ended").read_text().partition(" ")
            told[way] = Ended(float(when), json.loads(text))
        return told

    def is_over(self, way: str) -> bool:
        return (self.home / f"{self.ways.index(way)}.ended").exists()


def measure() -> Iterator[Result]:
    with Fleet(systemd=0, plain=1) as fleet:
        for where, on in (("local", None), ("over SSH", fleet)):
            yield _failure(where, on)
            yield _ready(where, on)
        yield _waiting(fleet)


@contextlib.contextmanager
def _story(fleet: Fleet | None, start: bytes, ways: dict[str, dict]) -> Iterator[tuple[Log, Watchers]]:
    with tempfile.TemporaryDirectory() as home:
        log = Log(fleet.hosts[0] if fleet else None, Path(home), start)
        try:
            yield log, Watchers(log, fleet, Path(home), ways)
        finally:
            log.die()


def _failure(where: str, fleet: Fleet | None) -> Result:
    text = (LOGS / "no-window.log").read_bytes()
    cut = text.rindex(b"\n", 0, text.index(b"WorkerProc failed to start.")) + 1
    with _story(fleet, text[:cut], WAYS) as (log, watchers):
        fatal = log.write(text[cut:])
        log.die()
        ended = watchers.ended()
    rows = {way: (end.at - fatal, _said(end.told)) for way, end in ended.items()}
    limit = 2.0 if fleet else 1.0
    return Result(
        f"a-failure-{'ssh' if fleet else 'local'}",
        f"A start that fails, {where}",
        f"From the fatal line in the log to the failed task. The others can only run into their time, here {TIMEOUT} s.",
        ("seconds", "what the task says"),
        rows,
        "seconds",
        [Target(f"At most {limit:.0f} s", rows["log_wait"][0], limit)],
    )


def _said(told: dict) -> str:
    lines = [line for line in told.get("msg", "").splitlines() if line.strip()]
    return (lines[1] if len(lines) > 1 else lines[0] if lines else "nothing").strip()[:100].replace("|", "/")


def _ready(where: str, fleet: Fleet | None) -> Result:
    text = (LOGS / "accepting.log").read_bytes()
    cut = text.rindex(b"\n", 0, text.index(PATTERN.encode())) + 1
    first, *more = text[cut:].splitlines(keepends=True)
    with _story(fleet, text[:cut], WAYS) as (log, watchers):
        ready = log.write(first)
        for n in range(30):  # a server that is ready goes on writing
            time.sleep(1)
            log.write(more[n % len(more)])
        wait_for(
            "those that can see it", lambda: watchers.is_over("log_wait") and watchers.is_over("wait_for"), TIMEOUT
        )
        ended = watchers.ended()
    rows = {way: (end.at - ready, "failed" if end.told.get("failed") else "ok") for way, end in ended.items()}
    return Result(
        f"b-ready-{'ssh' if fleet else 'local'}",
        f"A start that becomes ready, {where}",
        "From the line in the log to the task that is done. The server goes on writing, as servers do, so the line isn't among the last two for long.",
        ("seconds", "the task"),
        rows,
        "seconds",
        [Target("At most 0.5 s", rows["log_wait"][0], 0.5)],
    )


def _waiting(fleet: Fleet) -> Result:
    line = (
        b"(APIServer pid=1) INFO 11-30 06:49:31 [a.py:1] nothing that anybody waits for, line after line after line\n"
    )
    text, host = line * (MEGABYTES * 1_000_000 // len(line)), fleet.hosts[0]
    spent = {way: _cost(fleet, host, text, {way: task}) for way, task in {**NOTHING, **WAYS}.items()}
    idle = spent.pop("nothing")
    rows = {way: tuple(max(0.0, a - b) for a, b in zip(cost, idle, strict=True)) for way, cost in spent.items()}
    rows = {way: (seconds / TIMEOUT * 100, seconds, read) for way, (seconds, read) in rows.items()}
    return Result(
        "b-waiting",
        f"Waiting {TIMEOUT} s beside a log of {MEGABYTES} MB",
        "What it costs the host, less what a task costs there that only sleeps: processor time of all its processes, and bytes that they read. "
        "wait_for maps the log into its memory, which isn't counted as read.",
        ("% of a core", "processor seconds", "MB read"),
        rows,
        "% of a core",
        [Target("Under 1 % of a core", rows["log_wait"][0], 1)],
    )


def _cost(fleet: Fleet, host: Host, text: bytes, ways: dict[str, dict]) -> tuple[float, float]:
    with _story(fleet, text, ways) as (_log, watchers):
        before = usage(host)
        watchers.ended()
        after = usage(host)
    return after[0] - before[0], (after[1] - before[1]) / 1e6


def usage(host: Host) -> tuple[float, float]:
    """Processor seconds and bytes read, of all that runs on the host and of what its processes have reaped."""
    seconds = read = 0.0
    for pid in host.pids():
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            read += int(Path(f"/proc/{pid}/io").read_text().split()[1])
    return seconds, read

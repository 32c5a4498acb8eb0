"""log_wait beside the two ways that people wait for a server's log today, on the same files at the same time.

    log_wait_story.py [--timeout 60] [--megabytes 200]

The others are ansible.builtin.wait_for with search_regex, and a loop that looks at the last two lines every 15 s. All three watch the
same file from plays of their own, over a local connection. Three stories: a start that fails, a start that becomes ready and goes
on writing, and a wait for nothing beside a large log.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CLONE = Path(__file__).parents[2]
LOGS = CLONE / "tests/corpus/logs"
PATTERN = "Application startup complete"
WAYS = {
    "log_wait": """
      llmops.vllm.log_wait:
        path: {log}
        pid: {pid}
        timeout: {timeout}
""",
    "wait_for": """
      ansible.builtin.wait_for:
        path: {log}
        search_regex: {pattern}
        timeout: {timeout}
""",
    "tail -2": """
      ansible.builtin.shell: tail -2 {log} | grep -q '{pattern}'
      until: told is succeeded
      retries: {retries}
      delay: 15
""",
    "nothing": """
      ansible.builtin.wait_for:
        timeout: {timeout}
""",
}
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.file: path={mark}.begun state=touch mode=600
    - name: Wait
      ignore_errors: true
      register: told
{task}
    - ansible.builtin.copy:
        content: "{{{{ lookup('pipe', 'date +%s.%N') }}}} {{{{ told | to_json }}}}"
        dest: {mark}.ended
        mode: "0600"
"""
WRITER = "import sys\nfor line in sys.stdin.buffer:\n  f = open(sys.argv[1], 'ab'); f.write(bytes.fromhex(line.decode())); f.close()"


class Opens:
    """Counts how often a file is opened, by asking the kernel."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None)
        self.count = 0
        self._fd = libc.inotify_init1(0)
        libc.inotify_add_watch(self._fd, os.fsencode(path), 0x20)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            data, at = os.read(self._fd, 65536), 0
            while at < len(data):
                at += 16 + struct.unpack_from("iIII", data, at)[3]
                self.count += 1


class Story:
    """A log, who writes it, and the plays that wait for it."""

    def __init__(self, folder: str, start: bytes, ways: list[str], timeout: int, watch: bool = False) -> None:
        self.folder = Path(folder)
        self.log = self.folder / "server.log"
        self.log.write_bytes(start)
        self.opens = Opens(self.log) if watch else None
        self.writer = subprocess.Popen([sys.executable, "-uc", WRITER, self.log], stdin=subprocess.PIPE)
        self.plays = {way: self._play(way, timeout) for way in ways}
        while not all((self.folder / f"{self._name(way)}.begun").exists() for way in ways):
            time.sleep(0.1)
        time.sleep(5)  # now every task waits

    def _name(self, way: str) -> str:
        return way.replace(" ", "")

    def _play(self, way: str, timeout: int) -> subprocess.Popen[bytes]:
        mark = self.folder / self._name(way)
        values = {
            "log": self.log,
            "pid": self.writer.pid,
            "timeout": timeout,
            "pattern": PATTERN,
            "retries": timeout // 15,
        }
        book = mark.with_suffix(".yml")
        book.write_text(PLAY.format(mark=mark, task=WAYS[way].strip("\n").format(**values)))
        command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", book]
        env = {**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
        return subprocess.Popen(command, cwd=CLONE, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write(self, data: bytes) -> float:
        """Append to the log; returns when."""
        self.writer.stdin.write(data.hex().encode() + b"\n")
        self.writer.stdin.flush()
        while not self.log.read_bytes()[-2000:].endswith(data[-100:]):
            time.sleep(0.01)
        return time.time()

    def die(self) -> None:
        self.writer.stdin.close()
        self.writer.wait()

    def ended(self, way: str) -> bool:
        return (self.folder / f"{self._name(way)}.ended").exists()

    def results(self) -> dict[str, tuple[float, dict, float]]:
        """For each way: when its task had ended, what it told, and the processor time of its play."""
        told = {}
        for way, play in self.plays.items():
            _pid, _status, usage = os.wait4(play.pid, 0)
            when, _unused, text = (self.folder / f"{self._name(way)}.ended").read_text().partition(" ")
            told[way] = (float(when), json.loads(text), usage.ru_utime + usage.ru_stime)
        if self.writer.poll() is None:
            self.die()
        return told


def failing(timeout: int) -> None:
    log = (LOGS / "no-window.log").read_bytes()
    cut = log.index(b"WorkerProc failed to start.")
    cut = log.rindex(b"\n", 0, cut) + 1
    with tempfile.TemporaryDirectory() as folder:
        story = Story(folder, log[:cut], ["log_wait", "wait_for", "tail -2"], timeout)
        fatal = story.write(log[cut:])
        story.die()
        print(f"\nA start that fails (timeout of the others {timeout} s): from the fatal line to the failed task")
        for way, (when, told, _cpu) in story.results().items():
            says = told["msg"].splitlines()[1] if way == "log_wait" else told["msg"] or "(nothing)"
            print(f"  {way:9} {when - fatal:6.1f} s   {says[:110]}")


def becoming_ready(timeout: int) -> None:
    log = (LOGS / "accepting.log").read_bytes()
    cut = log.rindex(b"\n", 0, log.index(PATTERN.encode())) + 1
    lines = log[cut:].splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        story = Story(folder, log[:cut], ["log_wait", "wait_for", "tail -2"], timeout)
        ready = story.write(lines[0])
        for n in range(timeout):
            story.write(lines[1 + n % (len(lines) - 1)])
            time.sleep(1)
            if story.ended("log_wait") and story.ended("wait_for") and n > 30:
                break
        print("\nA start that becomes ready, and then serves: from the ready line to the finished task")
        for way, (when, told, _cpu) in story.results().items():
            print(f"  {way:9} {when - ready:6.1f} s   {'failed' if told.get('failed') else 'ok'}")


def waiting(timeout: int, megabytes: int) -> None:
    line = (
        b"(APIServer pid=1) INFO 11-30 06:49:31 [a.py:1] nothing that anybody waits for, line after line after line\n"
    )
    log = line * (megabytes * 1_000_000 // len(line))
    print(f"\nWaiting {timeout} s beside a log of {megabytes} MB: processor time, less that of a play that only sleeps")
    for way in ("log_wait", "wait_for", "tail -2"):
        with tempfile.TemporaryDirectory() as folder:
            story = Story(folder, log, [way, "nothing"], timeout, watch=True)
            told = story.results()
            spent = told[way][2] - told["nothing"][2]
            # Each look of wait_for searches all of the file; that of tail a block at its end.
            read = told[way][1].get("bytes") or (
                story.opens.count * len(log) if way == "wait_for" else story.opens.count * 8192
            )
            print(f"  {way:9} {spent:5.1f} s, opened {story.opens.count} times, {read / 1e6:.1f} MB read", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--megabytes", type=int, default=200)
    arguments = parser.parse_args()
    failing(arguments.timeout)
    becoming_ready(arguments.timeout)
    waiting(arguments.timeout, arguments.megabytes)


if __name__ == "__main__":
    main()

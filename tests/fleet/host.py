"""One host: what it can be asked, and what can befall it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from .lease import Lease
from .link import Link
from .machine import mac, wait_for

BOOT = Path(__file__).with_name("boot.sh")
ISOLATED = ["unshare", "--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"]
INSIDE = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PLAIN = ["/bin/sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e"]
FILL = """
path=$1 free=$2
mkdir -p "$path"
if [ "$(findmnt --noheadings --output FSTYPE --mountpoint "$path")" != tmpfs ]; then
  disk=$(mktemp -d)
  mount -t tmpfs -o size=50%,nr_inodes=0 disk "$disk"
  cp -a "$path" "$disk/data"
  head -c 4096 /dev/zero >"$disk/filler" # no file system is smaller than a page
  mount --bind "$disk/data" "$path"
  umount "$disk"
  rmdir "$disk"
fi
used=$(df --block-size=1 --output=used "$path" | tail -n 1)
mount -o "remount,size=$((used + free))" "$path"
"""


class Host:
    def __init__(self, lease: Lease, number: int, *, systemd: bool, base: Path, options: Sequence[str]) -> None:
        self.name = f"gpu{number}"
        self.systemd = systemd
        self.address = str(lease.network[number])
        self.link = Link(lease.name, f"{lease.name}-{number}")
        self._mac = mac(lease.network[number])
        self._base = base
        self._home = lease.home / self.name
        self._ssh_config = lease.home / "ssh_config"
        self._cgroups = lease.cgroups(self.name)
        self._options = [f"--machine={self.link.name}", f"--hostname={self.name}", *options]
        self._options += ["--boot"] if systemd else PLAIN
        self._process: subprocess.Popen[bytes] | None = None
        for directory in ("upper", "work", "root"):
            (self._home / directory).mkdir(parents=True)

    # Power

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Onto its disk, before it is first switched on."""
        file = self._home / "upper" / path
        for parent in reversed(Path(path).parents):
            directory, below = self._home / "upper" / parent, self._base / parent
            directory.mkdir(exist_ok=True)
            if below.exists():
                shutil.copymode(below, directory)  # the host sees this one's
        file.touch(mode)
        file.write_text(text)

    def launch(self) -> None:
        """Switches it on, and doesn't wait."""
        netns = os.open("/proc/self/ns/net", os.O_RDONLY)
        place = [self.link.bridge, self.link.name, self._mac, f"{self.address}/24", str(self._base), str(self._home)]
        cgroups = " ".join(map(str, self._cgroups))
        with open(self._home / "console.log", "a") as console:
            self._process = subprocess.Popen(
                [*ISOLATED, str(BOOT), f"/proc/self/fd/{netns}", *place, cgroups, *self._options],
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=console,
                pass_fds=[netns],
                start_new_session=True,
            )
        os.close(netns)

    def wait(self) -> None:
        """Until users can log in."""
        wait_for(f"{self.name} lets users in", self._lets_in, 60)

    def start(self) -> None:
        self.launch()
        self.wait()

    def kill(self) -> None:
        """Power loss: the disk stays as it is, and nobody is told."""
        if self._process is None:
            return
        if self.running:
            self.link.cut()
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)
        self._process = None
        self.link.remove()

    def reboot(self) -> None:
        """By its own systemd. Without one it's the machine that stops and starts it."""
        if self.systemd:
            before = self.pid
            self.run("systemctl reboot", check=False)
            wait_for(f"{self.name} is down and goes up again", lambda: self._init() not in (None, before), 120)
            self.wait()
        else:
            self.kill()
            self.start()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def reachable(self) -> bool:
        """Its sshd answers over the network."""
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    @property
    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id", check=False).stdout.strip()

    @property
    def pid(self) -> int:
        """Its PID 1, as this machine counts."""
        init = self._init()
        if init is None:
            raise RuntimeError(f"{self.name} isn't running")
        return init

    def pids(self) -> Iterator[int]:
        """All that runs on it, as this machine counts."""
        for group in self._cgroups:
            for directory, _unused, _unused in os.walk(group):
                with contextlib.suppress(OSError):  # groups and processes come and go
                    yield from map(int, Path(directory, "cgroup.procs").read_text().split())

    def _init(self) -> int | None:
        for pid in self.pids():
            with contextlib.suppress(OSError):
                if _numbers(pid)[2:] == ["1"]:  # boot.sh's namespace lies between
                    return pid
        return None

    def _lets_in(self) -> bool:
        if not self.running:
            console = (self._home / "console.log").read_text(errors="replace")
            raise RuntimeError(f"{self.name} went off while starting:\n{console[-2000:]}")
        return self.reachable and self.run("test ! -e /run/nologin", check=False).returncode == 0

    # Commands

    def ssh(self, *command: str) -> list[str]:
        """The command line of a connection as root."""
        return ["ssh", "-F", str(self._ssh_config), self.name, *command]

    def run(
        self, command: str, *, input: str | None = None, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Over SSH."""
        done = subprocess.run(
            self.ssh(command), input=input, capture_output=True, text=True, timeout=timeout, check=False
        )
        return _judged(done, check)

    def within(self, command: str, *words: str) -> list[str]:
        """The command line of a shell in it, not over the network. The words are the command's $1, $2 ..."""
        return ["nsenter", f"--target={self.pid}", *INSIDE, "sh", "-ec", command, "sh", *words]

    def console(self, command: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What it says there."""
        done = subprocess.run(
            self.within(command, *words),
            env={"PATH": PATH, "HOME": "/root"},
            capture_output=True,
            text=True,
            check=False,
        )
        return _judged(done, check)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.run(f"install -D -m {mode:o} /dev/stdin {shlex.quote(path)}", input=text)

    # Faults of processes and disks; those of the network are the link's

    def freeze(self, pid: int | None = None) -> None:
        """Stops the process with this number on the host; or all of them: it hangs, while its kernel still takes connections."""
        if pid is None:
            os.kill(self.pid, signal.SIGSTOP)
        self.console("kill -STOP $1", str(pid or -1))

    def thaw(self, pid: int | None = None) -> None:
        self.console("kill -CONT $1", str(pid or -1))
        if pid is None:
            os.kill(self.pid, signal.SIGCONT)

    def fill_disk(self, path: str, free: int = 0) -> None:
        """The directory, with all it holds, moves to a disk of its own with so many bytes free. In memory: power loss empties it."""
        self.console(FILL, path, str(free))

    def free_disk(self, path: str) -> None:
        """There is room again."""
        self.console('mount -o remount,size=50% "$1"', path)


def _numbers(pid: int) -> list[str]:
    """What the process is called in each namespace that counts it, from the outside in."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []


def _judged(done: subprocess.CompletedProcess[str], check: bool) -> subprocess.CompletedProcess[str]:
    if check and done.returncode != 0:
        raise RuntimeError(f"{done.args} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done

"""A fleet of real hosts on this machine, as long as the process that made it lives."""

from __future__ import annotations

import atexit
import contextlib
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import yaml

from .base import base, lacks
from .host import Host
from .lease import Lease

INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
SSH_CONFIG = """
Host *
  User root
  IdentityFile {home}/user
  IdentitiesOnly yes
  UserKnownHostsFile {home}/known_hosts
  HostKeyAlias fleet
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 5
  LogLevel ERROR
"""


class Fleet:
    """So many hosts with systemd, then so many without: gpu1, gpu2 ... All are up when this returns.

    binds are directories of this machine that every host sees at the same path, read-only.
    """

    def __init__(
        self,
        systemd: int = 1,
        plain: int = 0,
        *,
        binds: Iterable[Path | str] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        tree = base(say)
        options = ["--bind-ro=" + str(path).replace("\\", "\\\\").replace(":", "\\:") for path in binds]
        _raise_inotify()
        self._end = contextlib.ExitStack()
        atexit.register(self.close)
        with self._end:
            self._lease = Lease()
            self._end.callback(self._lease.close)
            self.home = self._lease.home
            self.gateway = str(self._lease.gateway)
            self.hosts = [
                Host(self._lease, number, systemd=number <= systemd, base=tree, options=options)
                for number in range(1, systemd + plain + 1)
            ]
            self._introduce()
            for host in self.hosts:
                self._end.callback(host.kill)
                host.launch()
            for host in self.hosts:
                host.wait()
            self._end = self._end.pop_all()

    def _introduce(self) -> None:
        """The hosts know each other by name, and this machine and they know each other by key."""
        for key in ("user", "host"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", self.home / key], check=True
            )
        (self.home / "known_hosts").write_text("fleet " + (self.home / "host.pub").read_text())
        names = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts)
        (self.home / "ssh_config").write_text(names + SSH_CONFIG.format(home=self.home))
        addresses = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
        for host in self.hosts:
            host.put("etc/hostname", f"{host.name}\n")
            host.put("etc/hosts", f"127.0.0.1 localhost\n{addresses}")
            host.put("etc/ssh/ssh_host_ed25519_key", (self.home / "host").read_text(), 0o600)
            host.put("root/.ssh/authorized_keys", (self.home / "user.pub").read_text())

    @property
    def inventory(self) -> Path:
        """For Ansible."""
        path = self.home / "hosts.yml"
        inventory = {
            "all": {
                "hosts": {host.name: {"ansible_host": host.address} for host in self.hosts},
                "vars": {
                    "ansible_user": "root",
                    "ansible_ssh_common_args": f"-F {self.home}/ssh_config",
                    "ansible_control_path_dir": f"{self.home}/cp",
                },
            }
        }
        if not path.exists():  # a play may be reading it
            path.write_text(yaml.safe_dump(inventory, sort_keys=False))
        return path

    def close(self) -> None:
        atexit.unregister(self.close)
        self._end.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_found: list[str] = []


def unable(say: Callable[[str], None] = print) -> str:
    """Why this machine can have no fleet; nothing if it can, which is tried once: tools alone don't make a host boot."""
    if not _found:
        _found.append(lacks() or _tried(say))
    return _found[0]


def _tried(say: Callable[[str], None]) -> str:
    try:
        with Fleet(systemd=1, plain=0, say=say):
            return ""
    except (
        OSError,
        RuntimeError,
        subprocess.SubprocessError,
    ) as error:  # a host that doesn't come up is a TimeoutError
        return f"a host was tried, and did not come up on this machine: {' '.join(str(error).split())[-500:]}"


def _raise_inotify() -> None:
    """Every systemd takes about ten of what is usually limited to 128 for all of root's. Never lowered again: others may need it."""
    if int(INOTIFY.read_text()) < 1024:
        INOTIFY.write_text("1024")

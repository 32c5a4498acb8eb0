"""The table of faults (faults.py), row by row, on real hosts. A double stands in for vLLM; double.py says why that suffices.

The rows of a batch befall as many hosts in one play; a second play, on what was mended, has to end well on each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from ansible_collections.llmops.vllm.tests.fleet.acting import HOME, MODELS, Cast, Ended
from ansible_collections.llmops.vllm.tests.fleet.double import FLAGS, VENV
from ansible_collections.llmops.vllm.tests.fleet.faults import FAULTS
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

INSTANCE = f"{HOME}/instances/default"
HOSTS = 14


@dataclasses.dataclass(frozen=True)
class Strike:
    """do and undo: a command on the host's console, or a function. variables: of the host, in the play that is struck.

    cue: the task before which it befalls; before the play if there is none.
    """

    do: str | Callable[[Host], object]
    undo: str | Callable[[Host], object] = ""
    cue: str = ""
    variables: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def befall(self, host: Host) -> None:
        _act(self.do, host)

    def mend(self, host: Host) -> None:
        _act(self.undo, host)


def _act(what: str | Callable[[Host], object], host: Host) -> None:
    if callable(what):
        what(host)
    elif what:
        host.console(what)


def full(path: str, **more: str) -> Strike:
    return Strike(lambda host: host.fill_disk(path), lambda host: host.free_disk(path), **more)


def deploys(sudo: str) -> str:
    """A user who may log in, and a sudo that is as it may be met."""
    return (
        "useradd -m deploy; install -d -o deploy /home/deploy/.ssh; "
        f"install -o deploy /root/.ssh/authorized_keys /home/deploy/.ssh/; {sudo}"
    )


# Hosts that nobody deployed to before.
FRESH = {
    "no-such-name": Strike("", variables={"ansible_host": "gpu.nowhere.invalid"}),
    "no-such-address": Strike("", variables={"ansible_host": "198.51.100.1"}),
    "no-python": Strike(
        "cd /usr/bin; mkdir /away; mv python* /away", "mv /away/* /usr/bin; rmdir /away"
    ),
    "no-sudo": Strike(
        deploys("mv /usr/bin/sudo /usr/bin/away"),
        "mv /usr/bin/away /usr/bin/sudo",
        variables={"ansible_user": "deploy", "ansible_become": True},
    ),
    "sudo-wants-a-password": Strike(
        deploys("true"), variables={"ansible_user": "deploy", "ansible_become": True}
    ),
    "not-root": Strike(deploys("true"), variables={"ansible_user": "deploy"}),
    "no-such-user": Strike("", variables={"vllm_user": "nobody-knows", "vllm_host_create_user": False}),
    "home-read-only": Strike(f"mkdir -p {HOME}; mount -t tmpfs -o ro tmpfs {HOME}", f"umount {HOME}"),
    "home-of-the-connection-read-only": Strike(
        "mount --bind /root /root; mount -o remount,bind,ro /root", "umount /root"
    ),
    "home-is-a-file": Strike(f"touch {HOME}", f"rm {HOME}"),
    "home-full": full(HOME),
    "overlays-is-a-file": Strike(f"mkdir -p {HOME}; touch {HOME}/overlays", f"rm {HOME}/overlays"),
    "overlays-dangling": Strike(f"mkdir -p {HOME}; ln -s /gone {HOME}/overlays", f"rm {HOME}/overlays"),
    "overlays-full": full(f"{HOME}/overlays"),
    "builds-a-strangers": Strike(
        f"useradd stranger; mkdir -p {HOME}; ln -s /srv/strangers {HOME}/builds; install -d -o stranger /srv/strangers",
        f"rm {HOME}/builds",
    ),
    "build-full": full(f"{HOME}/builds"),
    "models-closed": Strike(f"chmod 700 {MODELS}", f"chmod 755 {MODELS}"),
    "model-gone": Strike(f"mv {MODELS}/target {MODELS}/away", f"mv {MODELS}/away {MODELS}/target"),
    "drafter-truncated": Strike(
        f"cd {MODELS}/drafter; cp config.json /keep; truncate -s 40 config.json", f"cp /keep {MODELS}/drafter/config.json"
    ),
    "weights-truncated": Strike(
        f"cd {MODELS}/drafter; cp *.safetensors /keep; truncate -s 100 *.safetensors",
        f"cp /keep {MODELS}/drafter/*.safetensors",
    ),
    "releases-is-a-file": Strike(f"mkdir -p {INSTANCE}; touch {INSTANCE}/releases", f"rm {INSTANCE}/releases"),
    "release-full": full(f"{INSTANCE}/releases"),
    "cache-a-strangers-link": Strike(
        f"mkdir -p {INSTANCE}/cache; ln -s /gone {INSTANCE}/cache/vllm", f"rm {INSTANCE}/cache/vllm"
    ),
    "current-is-a-directory": Strike(f"mkdir -p {INSTANCE}/current/own", f"rm -r {INSTANCE}/current"),
    "log-is-a-file": Strike(f"mkdir -p {INSTANCE}; touch {INSTANCE}/log", f"rm {INSTANCE}/log"),
    "log-full": full(f"{INSTANCE}/log"),
    "run-full": full(f"{INSTANCE}/run"),
    "run-read-only": Strike(
        f"mkdir -p {INSTANCE}/run; mount -t tmpfs -o ro tmpfs {INSTANCE}/run", f"umount {INSTANCE}/run"
    ),
    # These end well at once.
    "locale": Strike("printf 'SetEnv LC_ALL=tr_TR.UTF-8 LANG=C\n' > /etc/ssh/sshd_config.d/locale.conf; kill -HUP 1"),
    "tmp-noexec": Strike("for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec,nosuid,mode=1777 tmpfs $d; done"),
    "umask": Strike("echo 'umask 077' >> /root/.bashrc; sed -i '1i umask 077' /root/.bashrc; echo 'umask 077' > /etc/profile.d/umask.sh"),
    "home-is-a-link": Strike(f"mkdir /data; ln -s /data {HOME}"),
}


@pytest.fixture(scope="module")
def cast(fleets, tmp_path_factory) -> Cast:
    return Cast(fleets, tmp_path_factory.mktemp("plays"), systemd=0, plain=HOSTS)


@dataclasses.dataclass
class Batch:
    """A struck play and the one after it. hosts: by the id of the row."""

    hosts: dict[str, Host]
    first: Ended
    again: Ended


def batches(cast: Cast, strikes: Mapping[str, Strike]) -> Iterator[dict[str, Strike]]:
    ids = list(strikes)
    for at in range(0, len(ids), HOSTS):
        yield {name: strikes[name] for name in ids[at : at + HOSTS]}


def strike(cast: Cast, strikes: Mapping[str, Strike]) -> Batch:
    hosts = dict(zip(strikes, cast.fleet.hosts))
    for name, one in strikes.items():
        one.befall(hosts[name])
    first = cast.play(hosts={hosts[name].name: one.variables for name, one in strikes.items()})
    for name, one in strikes.items():
        one.mend(hosts[name])
    again = cast.play(hosts={host.name: {} for host in hosts.values()})
    return Batch(hosts, first, again)

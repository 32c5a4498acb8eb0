"""The fleet is what it says: real hosts, real faults, and nothing left of it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.lease import HOME
from ansible_collections.llmops.vllm.tests.fleet.machine import hierarchies, links, wait_for

CLONE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fleet(fleets):
    return fleets(systemd=1, plain=1)


@pytest.fixture(params=[0, 1], ids=["systemd", "plain"])
def host(fleet, request) -> Iterator[Host]:
    host = fleet.hosts[request.param]
    yield host
    host.link.heal()


def test_a_host_with_systemd_and_one_without(fleet):
    systemd, plain = fleet.hosts
    assert systemd.run("cat /proc/1/comm; hostname").stdout == "systemd\ngpu1\n"
    assert systemd.run("systemctl is-system-running --wait").stdout == "running\n"
    assert plain.run("cat /proc/1/comm; hostname").stdout == "sshd\ngpu2\n"
    assert plain.run("test -e /run/systemd/system", check=False).returncode == 1


def test_hosts_have_identities_of_their_own(fleet):
    about = [
        (host.address, host.boot_id, os.readlink(f"/proc/{host.pid}/ns/net"), os.readlink(f"/proc/{host.pid}/ns/mnt"))
        for host in fleet.hosts
    ]
    assert not set(about[0]) & set(about[1])


def test_hosts_reach_each_other_by_name(fleet):
    one, two = fleet.hosts
    talk = "exec 3<>/dev/tcp/{}/22 && head -c 4 <&3"
    assert one.run(f"bash -c '{talk.format(two.name)}'").stdout == "SSH-"
    assert two.run(f"bash -c '{talk.format(one.name)}'").stdout == "SSH-"


def test_ansible_reaches_them(fleet):
    done = ping(fleet)
    assert done.returncode == 0, done.stdout
    assert sorted(re.findall(r"^(\w+) \| SUCCESS", done.stdout, re.MULTILINE)) == ["gpu1", "gpu2"]


def test_a_file_is_written(host):
    host.write("/srv/it's here/file", "zwölf\n", 0o600)
    assert host.run("cat '/srv/it'\\''s here/file'; stat -c %a /srv/*/file").stdout == "zwölf\n600\n"


def test_a_directory_of_the_machine_is_seen_but_not_changed(fleets, tmp_path):
    shared = tmp_path / "a:b"
    shared.mkdir()
    (shared / "engine").write_text("here")
    (host,) = fleets(systemd=0, plain=1, binds=[shared]).hosts
    assert host.run(f"cat {shared}/engine").stdout == "here"
    assert "Read-only file system" in host.run(f"touch {shared}/more", check=False).stderr


def test_a_cut_link_is_silent_and_heals(host):
    with connection(host) as cat:
        assert say(cat, "before") == "before\n"
        host.link.cut()
        assert not host.reachable
        print("meanwhile", file=cat.stdin, flush=True)
        assert host.console("hostname").stdout == f"{host.name}\n"
        assert cat.poll() is None
        host.link.heal()
        assert cat.stdout.readline() == "meanwhile\n"
    assert host.reachable


def test_a_slow_link(host):
    host.link.degrade(delay=0.1)
    # Never less than the delay, both ways, as TCP itself saw it; and without, less than that at least once.
    assert shortest_round_trip(host) >= 200
    host.link.heal()
    assert shortest_round_trip(host) < 200


def test_a_slow_link_can_be_cut_too(host):
    host.link.degrade(delay=0.01)
    assert host.reachable
    host.link.cut()
    assert not host.reachable
    host.link.heal()
    assert host.reachable


def test_a_link_that_loses_frames(host):
    before = sent_twice(host)
    host.link.degrade(loss=0.05)
    page = "a line of text\n" * 20_000

    def lost_and_sent_again() -> bool:
        assert host.run("cat", input=page).stdout == page
        return sent_twice(host) > before

    wait_for("a segment is sent twice", lost_and_sent_again, 60)


def test_a_frozen_process(host):
    pid = int(host.run("sleep 1000 >/dev/null 2>&1 & echo $!").stdout)
    host.freeze(pid)
    assert state(host, pid) == "T"
    host.thaw(pid)
    assert state(host, pid) == "S"
    host.run(f"kill {pid}")


def test_a_frozen_host(host):
    host.freeze()
    socket.create_connection((host.address, 22), timeout=5).close()
    assert not host.reachable
    host.thaw()
    assert host.reachable


def test_a_full_disk(host):
    host.write("/opt/app/kept", "kept\n")
    host.fill_disk("/opt/app", free=8192)
    host.run("head -c 8192 /dev/zero >/opt/app/fits")
    assert "No space left on device" in host.run("echo more >/opt/app/more", check=False).stderr
    host.run("rm /opt/app/fits")
    host.fill_disk("/opt/app")
    assert "No space left on device" in host.run("echo more >/opt/app/more", check=False).stderr
    assert host.run("cat /opt/app/kept; echo elsewhere >/opt/elsewhere").stdout == "kept\n"
    host.free_disk("/opt/app")
    host.run("echo more >/opt/app/more")


def test_power_loss(host):
    host.write("/srv/kept", "kept\n")
    pid = int(host.run("sleep 1000 >/dev/null 2>&1 & echo $!").stdout)
    before = host.boot_id
    with connection(host) as cat:
        assert say(cat, "before") == "before\n"
        host.kill()
        assert not host.running
        assert not host.reachable
        assert cat.poll() is None, "nobody tells the other end"
        host.start()
        print("after", file=cat.stdin, flush=True)
        assert cat.wait(60) == 255, "the new kernel knows no such connection"
    assert host.boot_id != before
    assert host.run("cat /srv/kept").stdout == "kept\n"
    assert host.run(f"cat /proc/{pid}/comm", check=False).stdout != "sleep\n"


def test_reboot(host):
    host.write("/srv/kept", "kept\n")
    before = host.boot_id
    host.reboot()
    assert host.boot_id != before
    assert host.run("cat /srv/kept").stdout == "kept\n"


def test_two_fleets_at_once(fleet, fleets):
    before = [host.pid for host in fleet.hosts]
    other = fleets(systemd=0, plain=1)
    assert other.gateway != fleet.gateway
    other.hosts[0].link.cut()
    assert not other.hosts[0].reachable
    assert all(host.reachable for host in fleet.hosts)
    other.close()
    assert [host.pid for host in fleet.hosts] == before
    assert all(host.reachable for host in fleet.hosts)


def test_nothing_is_left(fleets):
    with fleets(systemd=1, plain=1) as fleet:
        ping(fleet)
        fleet.hosts[0].link.degrade(delay=0.01)
        assert set(traces(fleet.home.name)) == {"link", "cgroup", "directory", "mount", "process"}
    assert traces(fleet.home.name) == {}


def test_what_a_killed_run_leaves_is_removed_by_the_next(fleets):
    code = "fleet = Fleet(1, 1); fleet.hosts[1].link.degrade(delay=0.01); print(fleet.home.name, flush=True); input()"
    with python(f"from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet; {code}") as run:
        name = run.stdout.readline().strip()
        assert set(traces(name)) == {"link", "cgroup", "directory", "mount", "process"}
        run.kill()
    wait_for("its hosts die with it", lambda: not {"process", "mount"} & set(traces(name)))
    fleets(systemd=0, plain=1)
    assert traces(name) == {}


def test_a_base_half_made_is_never_used(fleets, tmp_path):
    cache = tmp_path / "llmops-vllm"
    code = "from ansible_collections.llmops.vllm.tests.fleet.base import base; base(print)"
    for _unused in ("made", "made again"):
        with python(code, XDG_CACHE_HOME=str(tmp_path)) as run:
            wait_for(
                "it's under way", lambda: any(cache.glob("*.part/debootstrap")) and not any(cache.glob("*.part/mark"))
            )
            run.kill()
        wait_for("all of it dies", lambda: not processes(str(cache)))
        (made,) = cache.glob("fleet-base-*/")
        assert made.suffix == ".part"
        (made / "mark").touch()


@pytest.mark.parametrize(("ci", "outcome"), [("", "2 skipped"), ("true", "2 errors")])
def test_a_machine_that_cannot_is_said_aloud(ci, outcome):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-k", "test_a_file_is_written"],
        cwd=CLONE,
        env={**os.environ, "PATH": "/nowhere", "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if ci else 0), done.stdout
    assert outcome in done.stdout.splitlines()[-1]
    assert "a fleet needs apt-get, bash, debootstrap" in done.stdout


# What the tests ask


def ping(fleet: Fleet) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("ansible"), "all", "-i", fleet.inventory, "-m", "ansible.builtin.ping"],
        cwd=CLONE,
        env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def connection(host: Host) -> Iterator[subprocess.Popen[str]]:
    """What is said to it comes back."""
    with subprocess.Popen(
        host.ssh("cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cat:
        yield cat
        cat.kill()


def say(cat: subprocess.Popen[str], word: str) -> str:
    print(word, file=cat.stdin, flush=True)
    return cat.stdout.readline()


def python(code: str, **environment: str) -> subprocess.Popen[str]:
    path = str(CLONE / ".collections")
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def state(host: Host, pid: int) -> str:
    return host.run(f"ps -o state= -p {pid}").stdout.strip()


def shortest_round_trip(host: Host) -> float:
    """In milliseconds, of the connection that asks."""
    found = host.run("set -- $SSH_CONNECTION; ss --tcp --info --no-header dport = :$2").stdout
    return float(re.search(r"minrtt:([\d.]+)", found)[1])


def sent_twice(host: Host) -> int:
    return int(host.run("awk '/^Tcp:/ {n = $13} END {print n}' /proc/net/snmp").stdout)


def traces(name: str) -> dict[str, list[str]]:
    """What bears the fleet's name, by kind."""
    found = {
        "link": [link for link in links() if re.fullmatch(rf"{name}(-.*)?", link)],
        "cgroup": [str(mount / name) for mount in hierarchies() if (mount / name).exists()],
        "directory": [str(HOME / name)] if (HOME / name).exists() else [],
        "mount": [pid for pid, text in proc("mountinfo") if f"{HOME / name}/" in text],
        "process": processes(rf"\b{name}\b"),
    }
    return {kind: those for kind, those in found.items() if those}


def processes(pattern: str) -> list[str]:
    return [line for _unused, line in proc("cmdline") if re.search(pattern, line)]


def proc(file: str) -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        with contextlib.suppress(OSError):  # it ended
            yield path.parent.name, path.read_text(errors="replace").replace("\0", " ")

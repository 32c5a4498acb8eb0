"""The table of faults (faults.py), row by row, on real hosts. A double stands in for vLLM; double.py says why that suffices.

The rows of a batch befall as many hosts in one play, and a second play, on what was mended, has to end well on each. So a row is a line or
two here and a few in the table, and costs no play of its own.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping, Sequence

import pytest

from ansible_collections.llmops.vllm.tests.fleet import clock
from ansible_collections.llmops.vllm.tests.fleet.acting import HOME, MODELS, Cast, Ended
from ansible_collections.llmops.vllm.tests.fleet.double import FLAGS, VENV
from ansible_collections.llmops.vllm.tests.fleet.faults import BY_ID, matches
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, changed

INSTANCE = f"{HOME}/instances/default"
HOSTS = 16
SERVERS = f"pgrep -f '^{VENV}/bin/python {VENV}/bin/vllm serve'"
# What a host holds that nobody may lose: path, and a digest of so many bytes of it as are asked about.
WITNESS = """
import hashlib, json, os, sys
known = json.loads(sys.argv[1])
inside = [os.path.join(d, name) for root in sys.argv[2:] for d, _, names in os.walk(root) for name in names if "/cache/" not in d]
kept = [p for p in inside if os.path.basename(p) not in ("evidence.json", "server.pid", "server.pid.exit", "server.pid.lock")]
told = {}
for path in filter(os.path.isfile, kept):
    data = open(path, "rb").read()
    size = known.get(path, [len(data)])[0]
    told[path] = [size, hashlib.sha256(data[:size]).hexdigest()]
left = [p for p in inside if os.path.basename(p).startswith(".") and p.endswith((".tmp", ".new"))]
print(json.dumps([told, left]))
"""
CLEAR = f"""
pkill -KILL -f ^{VENV}/bin/python || true
while [ -n "$(pgrep -f ^{VENV}/bin/python)" ]; do sleep 0.05; done
if mountpoint -q /root; then umount /root; fi
mount | cut -d' ' -f3 | grep ^{HOME} | sort -r | xargs -r umount
rm -rf {HOME} /data {FLAGS}/*
"""


@dataclasses.dataclass(frozen=True)
class Strike:
    """do and undo: a command of the host's console, or a function. variables: of the host, in the play that is struck."""

    do: str | Callable[[Host], object] = ""
    undo: str | Callable[[Host], object] = ""
    variables: Mapping[str, object] = dataclasses.field(default_factory=dict)


def act(what: str | Callable[[Host], object], host: Host) -> None:
    if callable(what):
        what(host)
    elif what:
        host.console(what)


def full(path: str) -> Strike:
    return Strike(lambda host: host.fill_disk(path), lambda host: host.free_disk(path))


def deploys(sudo: str) -> str:
    """A user who may log in, and a sudo as it may be met."""
    return (
        "useradd -m deploy; install -d -o deploy /home/deploy/.ssh; "
        f"install -o deploy /root/.ssh/authorized_keys /home/deploy/.ssh/; {sudo}"
    )


NO_DEPLOY = "pkill -KILL -u deploy || true; userdel -rf deploy || true"
# What is wrong with a host that nobody deployed to before.
HOST = {
    "no-such-name": Strike("", variables={"ansible_host": "gpu.nowhere.invalid"}),
    "no-such-address": Strike("", variables={"ansible_host": "198.51.100.1"}),
    "no-python": Strike("cd /usr/bin; mkdir /away; mv python* /away", "mv /away/* /usr/bin; rmdir /away"),
    "no-sudo": Strike(
        deploys("mv /usr/bin/sudo /usr/bin/away"),
        f"mv /usr/bin/away /usr/bin/sudo; {NO_DEPLOY}",
        variables={"ansible_user": "deploy", "ansible_become": True},
    ),
    "sudo-wants-a-password": Strike(
        deploys("true"), NO_DEPLOY, variables={"ansible_user": "deploy", "ansible_become": True}
    ),
    "not-root": Strike(deploys("userdel vllm || true"), NO_DEPLOY, variables={"ansible_user": "deploy"}),
    "no-such-user": Strike("", variables={"vllm_user": "nobody-knows", "vllm_host_create_user": False}),
    "home-read-only": Strike(f"mkdir {HOME}; mount -t tmpfs -o ro tmpfs {HOME}", f"umount {HOME}"),
    "home-of-the-connection-read-only": Strike(
        "mount --bind /root /root; mount -o remount,bind,ro /root", "umount /root"
    ),
    "home-is-a-file": Strike(f"touch {HOME}", f"rm {HOME}"),
    "home-full": full(HOME),
    "models-closed": Strike(f"chmod 700 {MODELS}", f"chmod 755 {MODELS}"),
    "model-gone": Strike(f"mv {MODELS}/target {MODELS}/away", f"mv {MODELS}/away {MODELS}/target"),
    "drafter-truncated": Strike(
        f"cd {MODELS}/drafter; cp config.json /keep; truncate -s 40 config.json",
        f"cp /keep {MODELS}/drafter/config.json",
    ),
    "weights-truncated": Strike(
        f"cd {MODELS}/drafter; cp *.safetensors /keep; truncate -s 100 *.safetensors",
        f"cp /keep {MODELS}/drafter/*.safetensors",
    ),
    "target-truncated": Strike(
        f"cd {MODELS}/target; cp config.json /keep; truncate -s 40 config.json", f"cp /keep {MODELS}/target/config.json"
    ),
    "overlays-is-a-file": Strike(f"mkdir {HOME}; touch {HOME}/overlays", f"rm {HOME}/overlays"),
    "overlays-dangling": Strike(f"mkdir {HOME}; ln -s /gone {HOME}/overlays", f"rm {HOME}/overlays"),
    "overlays-full": full(f"{HOME}/overlays"),
    "overlays-without-inodes": Strike(
        f"mkdir -p {HOME}/overlays; mount -t tmpfs -o nr_inodes=1 tmpfs {HOME}/overlays", f"umount {HOME}/overlays"
    ),
    "releases-is-a-file": Strike(f"mkdir -p {INSTANCE}; touch {INSTANCE}/releases", f"rm {INSTANCE}/releases"),
    "release-full": full(f"{INSTANCE}/releases"),
    "cache-is-a-dangling-link": Strike(
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
    "other-locale": Strike(
        "printf 'SetEnv LC_ALL=tr_TR.UTF-8 LANG=C\n' > /etc/ssh/sshd_config.d/locale.conf; kill -HUP 1",
        "rm /etc/ssh/sshd_config.d/locale.conf; kill -HUP 1",
    ),
    "tmp-noexec": Strike(
        "for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec,nosuid,mode=1777 tmpfs $d; done",
        "umount /tmp /var/tmp /dev/shm",
    ),
    "umask": Strike("cp /root/.bashrc /keep; sed -i '1i umask 077' /root/.bashrc", "mv /keep /root/.bashrc"),
    "home-is-a-link": Strike(f"mkdir /data; ln -s /data {HOME}"),
    "clock-behind": Strike(lambda host: clock.shift(host, -86400 * 400), clock.right),
}


# What becomes of a host that serves, between two plays.
SERVING = {
    "release-truncated": Strike(f"truncate -s 20 {INSTANCE}/current/release.json"),
    "evidence-truncated": Strike(f"truncate -s 20 {INSTANCE}/current/evidence.json"),
    "launch-script-changed": Strike(f"echo '# by hand' >> {INSTANCE}/current/launch.py"),
    "secrets-opened": Strike(f"chmod 644 {INSTANCE}/current/env.json"),
    "stamp-truncated": Strike(f"for f in {HOME}/builds/*/build.json; do truncate -s 20 $f; done"),
    "overlay-truncated": Strike(f"truncate -s 20 {HOME}/overlays/*/config.json"),
    "overlay-link-gone": Strike(f"rm {HOME}/overlays/*/*.safetensors"),
    "pid-file-truncated": Strike(f"truncate -s 0 {INSTANCE}/run/server.pid"),
    "pid-file-of-another": Strike(f'sed -i \'s/"pid": [0-9]*/"pid": 1/\' {INSTANCE}/run/server.pid'),
    "current-dangling": Strike(f"ln -sfn releases/gone {INSTANCE}/current"),
    "log-gone": Strike(
        f"mv {INSTANCE}/log /log", f"mkdir -p {INSTANCE}/log; cp -an /log/. {INSTANCE}/log/; rm -r /log"
    ),
    "server-killed": Strike("kill -KILL $(" + SERVERS + ")"),
    "server-frozen": Strike(
        "kill -STOP $(" + SERVERS + ")", "kill -CONT $(" + SERVERS + ")", {"vllm_serve_token_timeout": 5}
    ),
    "program-gone": Strike(f"mv {VENV} /away", f"mv /away {VENV}"),
    "host-off-and-on": Strike(lambda host: (host.kill(), host.start())),
    "secrets-of-another": Strike(f"chown root:root {INSTANCE}/current/env.json"),
    "cache-of-another": Strike(f"chown root:root {INSTANCE}/cache/vllm"),
}

# Where the stages of the whole job begin, by the names of tasks. The first "Run the release" rehearses.
CUES = {
    "host": "Make the directory",
    "models": "Look for the models that are here",
    "build": "Prove the venv that is there",
    "drafter": "Prove and mend the drafter's config",
    "release": "Write the release",
    "rehearsal": "Run the release",
    "start": "Run the release",
    "wait": "Wait until it is ready",
    "verify": "Measure the acceptance",
}
STAGES = [stage for stage in CUES if stage != "rehearsal"]


def kill(number: int) -> Callable[[Host], None]:
    return lambda host: host.console(f"kill -{number} $({SERVERS})") and None


# What befalls an engine that stands still at a line of its log or at an answer.
ENGINE = {
    "engine-killed-starting": ("Initializing a V1 LLM engine", kill(9), {}),
    "engine-killed-loading": ("Starting to load model", kill(9), {}),
    "engine-killed-compiling": ("Dynamo bytecode", kill(9), {}),
    "engine-killed-listening": ("Starting vLLM server", kill(9), {}),
    "engine-stopped-loading": ("Starting to load model", kill(15), {}),
    "engine-frozen-loading": ("Starting to load model", kill(19), {"patience": 15}),
    "engine-killed-first-token": ("the first answer", kill(9), {}),
    "engine-frozen-first-token": ("the first answer", kill(19), {"vllm_serve_token_timeout": 5}),
    "engine-killed-verifying": ("a later answer", kill(9), {}),
    "engine-frozen-verifying": ("a later answer", kill(19), {"vllm_verify_timeout": 8}),
}

# What others do to a host while a play is under way there: before which task, what, and what mends it.
MEANWHILE = {
    "drafter-truncated-meanwhile": (
        "drafter",
        Strike(
            f"cd {MODELS}/drafter; cp config.json /keep; truncate -s 40 config.json",
            f"cp /keep {MODELS}/drafter/config.json",
        ),
    ),
    "disk-read-only-meanwhile": (
        "drafter",
        Strike(f"mount --bind {HOME} {HOME}; mount -o remount,bind,ro {HOME}", f"umount {HOME}"),
    ),
    "weights-gone-meanwhile": (
        "release",
        Strike(f"cd {MODELS}/drafter; mv *.safetensors /keep", f"mv /keep {MODELS}/drafter/model.safetensors"),
    ),
    "program-gone-meanwhile": ("release", Strike(f"mv {VENV} /away", f"mv /away {VENV}")),
    "user-gone-meanwhile": ("release", Strike("userdel vllm")),
    "host-frozen-meanwhile": ("release", Strike(lambda host: host.freeze(), lambda host: host.thaw())),
    "release-gone-meanwhile": ("start", Strike(f"rm -r {INSTANCE}/releases/*")),
    "port-taken-meanwhile": (
        "start",
        Strike(
            "setsid python3 -m http.server 18500 --bind 127.0.0.1 >/dev/null 2>&1 </dev/null & "
            "until ss -ltn | grep -q :18500; do sleep 0.05; done",
            "pkill -f http[.]server",
        ),
    ),
    "clock-jumps-meanwhile": ("wait", Strike(lambda host: clock.shift(host, 86400), clock.right)),
    "evidence-full-meanwhile": ("verify", full(f"{INSTANCE}/releases")),
}


@pytest.fixture(scope="module")
def cast(fleets, tmp_path_factory) -> Cast:
    return Cast(fleets, tmp_path_factory.mktemp("plays"), systemd=0, plain=HOSTS)


@dataclasses.dataclass
class Batch:
    """What a struck play came to and the one after it, by the ids of the rows. lost: what was there before and is no more."""

    hosts: dict[str, Host]
    first: dict[str, Ended] = dataclasses.field(default_factory=dict)
    again: Ended | None = None
    known: dict[str, dict[str, list]] = dataclasses.field(default_factory=dict)
    lost: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    served: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """The servers before the play and after it, of a row where there was one."""

    @classmethod
    def of(cls, cast: Cast, names: Sequence[str], fresh: bool = True) -> Batch:
        """A host for each row, as nobody has deployed to it yet, or serving."""
        cast.interrupt()
        batch = cls(dict(zip(names, cast.fleet.hosts)))
        assert len(batch.hosts) == len(names), "more rows than hosts"
        for host in batch.hosts.values():
            host.console(CLEAR)
        if not fresh:
            assert cast.play(hosts={host.name: {} for host in batch.hosts.values()}).code == 0
        batch.known = {name: witness(host)[0] for name, host in batch.hosts.items()}
        return batch

    def once_more(self, cast: Cast) -> Batch:
        self.again = cast.play(hosts={host.name: {} for host in self.hosts.values()})
        for name, host in self.hosts.items():
            if not self.again.how(host.name):
                told, left = witness(host, self.known[name])
                proven = json.loads(host.console(f"cat {INSTANCE}/current/evidence.json").stdout)["verdict"] == "pass"
                left += [] if proven else ["the proof"]
                self.lost[name] = [path for path, digest in self.known[name].items() if told.get(path) != digest] + left
        return self

    def judge(self, name: str) -> None:
        """The row is as the table has it."""
        row, host = BY_ID[name], self.hosts[name].name
        ended = self.first[name]
        print(f"{name}: {ended.how(host) or 'ended well'}: {ended.said(host)}")
        if row.says:
            assert ended.how(host), "it was to fail"
            assert len(set(self.served.get(name, [""]))) == 1, "what served before serves on"
            assert matches(row.says, ended.said(host)), ended.said(host)
        else:
            assert not ended.how(host), ended.said(host)
        assert not self.again.how(host), self.again.said(host)
        assert self.lost[name] == []


def witness(host: Host, known: Mapping[str, list] | None = None) -> tuple[dict[str, list], list[str]]:
    told, left = json.loads(
        host.console(
            f'python3 -c {shlex.quote(WITNESS)} "$1" {MODELS} {HOME}/overlays {HOME}/instances/default',
            json.dumps(known or {}),
        ).stdout
    )
    return told, left


def test_nothing_is_struck_that_the_table_does_not_name():
    struck = {*HOST, *SERVING, *ENGINE, *MEANWHILE}
    assert struck <= set(BY_ID)


def host_batch(cast: Cast, names: Sequence[str], fresh: bool) -> Batch:
    strikes = {**HOST, **SERVING}
    batch = Batch.of(cast, names, fresh)
    for name, host in batch.hosts.items():
        act(strikes[name].do, host)
    if not fresh:
        batch.served = {name: [host.console(SERVERS, check=False).stdout] for name, host in batch.hosts.items()}
    first = cast.play(hosts={host.name: strikes[name].variables for name, host in batch.hosts.items()})
    batch.first = dict.fromkeys(names, first)
    for name, told in batch.served.items():
        told.append(batch.hosts[name].console(SERVERS, check=False).stdout)
    for name, host in batch.hosts.items():
        act(strikes[name].undo, host)
    return batch.once_more(cast)


def parts(names: Sequence[str]) -> list[list[str]]:
    return [list(names)[at : at + HOSTS] for at in range(0, len(names), HOSTS)]


@pytest.fixture(scope="module")
def hosts(cast) -> dict[str, Batch]:
    return {name: batch for part in parts(list(HOST)) for batch in [host_batch(cast, part, True)] for name in part}


@pytest.mark.long
@pytest.mark.parametrize("name", HOST)
def test_host(hosts, name):
    hosts[name].judge(name)


@pytest.fixture(scope="module")
def serving(cast) -> dict[str, Batch]:
    return {name: batch for part in parts(list(SERVING)) for batch in [host_batch(cast, part, False)] for name in part}


@pytest.mark.long
@pytest.mark.parametrize("name", SERVING)
def test_serving(serving, name):
    serving[name].judge(name)


@pytest.fixture(scope="module")
def broken_off(cast) -> Batch:
    """Each stage twice: the cable of one host is out, another loses its power."""
    names = [f"{what}-{stage}" for stage in STAGES for what in ("cut", "power")]
    batch = Batch.of(cast, names)
    run = cast.start(cues=list(CUES.values()), hosts={host.name: {} for host in batch.hosts.values()})
    for number, stage in enumerate(CUES):
        run.strike(
            number,
            lambda stage=stage: (
                stage in STAGES and (batch.hosts[f"cut-{stage}"].link.cut(), batch.hosts[f"power-{stage}"].kill())
            ),
        )
    batch.first = dict.fromkeys(names, run.end())
    for stage in STAGES:
        batch.hosts[f"cut-{stage}"].link.heal()
        batch.hosts[f"power-{stage}"].start()
    return batch.once_more(cast)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["cut", "power"])
def test_broken_off(broken_off, what, stage):
    broken_off.judge(f"{what}-{stage}")


@pytest.fixture(scope="module")
def controllers(cast) -> Batch:
    """One play a host, each killed at another stage."""
    batch = Batch.of(cast, [f"controller-{stage}" for stage in STAGES])
    cues = list(CUES.values())
    runs = {}
    for number, stage in enumerate(CUES):
        if stage in STAGES:
            host = batch.hosts[f"controller-{stage}"]
            runs[stage] = number, cast.start(cues=cues[: number + 1], hosts={host.name: {}})
    for number, run in runs.values():
        for passed in range(number):
            run.strike(passed, lambda: None)
        run.strike(number, run.process.kill)
        run.end()
    return batch.once_more(cast)


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
def test_controller_killed(controllers, stage):
    name = f"controller-{stage}"
    assert not controllers.again.how(controllers.hosts[name].name)
    assert controllers.lost[name] == []


@pytest.fixture(scope="module")
def engines(cast) -> Batch:
    batch = Batch.of(cast, list(ENGINE))
    for name, host in batch.hosts.items():
        host.write(f"{FLAGS}/hold", ENGINE[name][0])
    run = cast.start(hosts={host.name: ENGINE[name][2] for name, host in batch.hosts.items()})
    for name, host in batch.hosts.items():
        wait_for(
            f"{name} stands still",
            lambda host=host: (
                host.console(f"test -e {FLAGS}/held", check=False).returncode == 0 or run.process.poll() is not None
            ),
            180,
        )
        ENGINE[name][1](host)
    batch.first = dict.fromkeys(batch.hosts, run.end())
    for host in batch.hosts.values():
        host.console(f"rm {FLAGS}/*; kill -CONT $({SERVERS}) || true")
    return batch.once_more(cast)


@pytest.mark.parametrize("name", ENGINE)
def test_engine(engines, name):
    engines.judge(name)


@pytest.fixture(scope="module")
def meanwhile(cast) -> Batch:
    batch = Batch.of(cast, list(MEANWHILE))
    clock.shift(batch.hosts["clock-jumps-meanwhile"], 0)
    run = cast.start(cues=list(CUES.values()), hosts={host.name: {} for host in batch.hosts.values()})
    for number, stage in enumerate(CUES):
        struck = [(host, MEANWHILE[name][1]) for name, host in batch.hosts.items() if MEANWHILE[name][0] == stage]
        run.strike(number, lambda struck=struck: [act(one.do, host) for host, one in struck])
    batch.first = dict.fromkeys(batch.hosts, run.end())
    for name, host in batch.hosts.items():
        act(MEANWHILE[name][1].undo, host)
    return batch.once_more(cast)


@pytest.mark.long
@pytest.mark.parametrize("name", MEANWHILE)
def test_meanwhile(meanwhile, name):
    meanwhile.judge(name)


@pytest.mark.long
def test_two_controllers_that_want_the_same(cast):
    host = Batch.of(cast, ["two-controllers"]).hosts["two-controllers"]
    runs = [cast.start(hosts={host.name: {}}) for _unused in range(2)]
    assert [run.end().code for run in runs] == [0, 0]
    assert len(host.console(SERVERS).stdout.split()) == 1
    assert changed(cast.play(hosts={host.name: {}}).output) == 0


@pytest.mark.long
def test_two_controllers_that_want_different_releases(cast):
    """One of them stands before the wait when the other comes, and is done."""
    host = Batch.of(cast, ["two-wishes"]).hosts["two-wishes"]
    first = cast.start(cues=[CUES["wait"]], hosts={host.name: {}})
    wishes = {"vllm_serve_args": {**ARGS, "max-num-seqs": 3}}
    first.strike(0, lambda: cast.play(hosts={host.name: {}}, **wishes))
    ended = first.end()
    assert ended.how(host.name), "what it launched is no more"
    assert matches(BY_ID["two-wishes"].says, ended.said(host.name))
    assert changed(cast.play(hosts={host.name: {}}, **wishes).output) == 0, "what the other launched was left alone"
    assert cast.play(hosts={host.name: {}}).code == 0
    assert len(host.console(SERVERS).stdout.split()) == 1


@pytest.mark.long
def test_a_full_disk_of_the_controller(cast):
    host = Batch.of(cast, ["report-full"]).hosts["report-full"]
    small = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs -o size=4k tmpfs "$0"; exec "$@"', str(cast.reports)]
    ended = cast.play(by=small, hosts={host.name: {}})
    assert ended.code == 0
    assert matches(BY_ID["report-full"].says, " ".join(ended.output.split()))

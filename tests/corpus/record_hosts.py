"""Record the corpus of two hosts that run one server: what each of them logs, each time with one fault.

    python -m ansible_collections.llmops.vllm.tests.corpus.record_hosts [--into DIR] [NAME ...]

As record.py does it, but with the hosts of tests/fleet, the engine of `make demo`, and two logs for each name. Says how each end
ended, and how long after the fault. Those that tell nothing that another doesn't are not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable

from ansible_collections.llmops.vllm.tests.corpus.record import LOGS, READY
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, BUILDS, PAIR, RIGHT, Serving

RUN = "/srv/run"
MODELS = "/srv/models"
PORT = 29501
# The outer shell outlives the server, to say how it ended. What is started here is known by the inner one's session.
START = """
mkdir -p {run} && cat > {run}/start.sh && rm -f {run}/code {run}/sid
setsid -f sh -c 'setsid --wait sh {run}/start.sh >{run}/server.log 2>&1 </dev/null; echo $? >{run}/code' >/dev/null 2>&1 </dev/null
"""
SERVER = "echo $$ >{run}/sid; ulimit -n $(ulimit -Hn); exec env {environment} {command}\n"
ASK = (
    "import json, urllib.request as web; print(json.load(web.urlopen(web.Request('http://127.0.0.1:8000/v1/chat/completions', "
    "json.dumps({'model': 'tiny', 'max_tokens': 100, 'temperature': 0, 'messages': [{'role': 'user', 'content': 'Recite chapter 1'}]})"
    ".encode(), {'Content-Type': 'application/json'}), timeout=60))['choices'][0]['message']['content'])"
)


class End:
    """One of the two: its host, and the server's process there."""

    def __init__(self, host: Host, rank: int, venv: object, head: Host) -> None:
        self.host, self.rank, self.venv, self.head = host, rank, venv, head
        self.name = "follower" if rank else "head"
        self.more: dict[str, object] = {}

    def start(self, **environment: str) -> None:
        args: dict[str, object] = {
            **ARGS,
            "host": "127.0.0.1",
            "port": 8000,
            "speculative-config": json.dumps(
                {"method": "dflash", "model": f"{MODELS}/drafter", "num_speculative_tokens": 7}
            ),
            "tensor-parallel-size": 2,
            "distributed-executor-backend": "mp",
            "nnodes": 2,
            "node-rank": self.rank,
            "master-addr": self.head.address,
            "master-port": PORT,
        }
        if self.rank:
            args["headless"] = True
        args.update(self.more)
        words = [f"{self.venv}/bin/vllm", "serve", f"{MODELS}/target"]
        for name, value in args.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        env = {
            "VLLM_HOST_IP": self.host.address,
            "GLOO_SOCKET_IFNAME": self.interface,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            **environment,
        }
        script = SERVER.format(
            run=RUN,
            environment=" ".join(f"{k}={shlex.quote(v)}" for k, v in env.items()),
            command=shlex.join(words),
        )
        self.host.run(START.format(run=RUN), input=script)

    @property
    def interface(self) -> str:
        return self.host.run(f"ip -o addr show to {self.host.address}").stdout.split()[1]

    def log(self) -> str:
        """By the console, as the link may be cut."""
        return self.host.console(f"cat {RUN}/server.log 2>/dev/null || true").stdout

    def code(self) -> str:
        """How the server ended; empty if it runs."""
        return self.host.console(f"cat {RUN}/code 2>/dev/null || true").stdout.strip()

    def until(self, text: str, limit: float = 240) -> None:
        end = time.monotonic() + limit
        while text not in self.log():
            if self.code() or time.monotonic() > end:
                raise SystemExit(f"{text!r} never came on the {self.name}:\n{self.log()[-3000:]}")
            time.sleep(0.2)

    def session(self, signal: str = "0") -> None:
        self.host.console(f"kill -{signal} $(ps -o pid= -s $(cat {RUN}/sid)) 2>/dev/null || true")

    def kill(self) -> None:
        self.session("KILL")

    def processes(self) -> str:
        return self.host.console(
            f"ps -o pid=,args= -s $(cat {RUN}/sid) 2>/dev/null | cut -c 1-100 || true"
        ).stdout.strip()

    def worker(self) -> int:
        return int(next(line.split()[0] for line in self.processes().splitlines() if "VLLM::Worker" in line))

    def clear(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.kill()


class Two:
    def __init__(self, head: Host, follower: Host, venv: object) -> None:
        self.head, self.follower = End(head, 0, venv, head), End(follower, 1, venv, head)
        self.notes: list[str] = []

    @property
    def ends(self) -> tuple[End, End]:
        return self.head, self.follower

    def start(self) -> None:
        for end in self.ends:
            end.start()

    def ready(self) -> None:
        self.start()
        began = time.monotonic()
        self.head.until(READY.decode())
        self.note(f"ready after {time.monotonic() - began:.0f} s")

    def note(self, text: str) -> None:
        self.notes.append(text)

    def ask(self) -> None:
        done = subprocess.run(
            self.head.host.within('python3 -c "$1"', ASK), capture_output=True, text=True, check=False
        )
        said = (done.stdout or done.stderr).strip().splitlines() or ["nothing"]
        self.note(f"asked: {said[-1][:120]}")

    def watch(self, limit: float, *ends: End) -> None:
        """How each ends, and when."""
        began, left = time.monotonic(), list(ends or self.ends)
        while left and time.monotonic() - began < limit:
            for end in list(left):
                if end.code():
                    self.note(
                        f"{end.name} ended with {end.code()} after {time.monotonic() - began:.0f} s; left: {end.processes() or '-'}"
                    )
                    left.remove(end)
            time.sleep(0.5)
        for end in left:
            self.note(f"{end.name} still runs after {limit:.0f} s: {end.processes()}")

    def clear(self) -> None:
        for end in self.ends:
            end.clear()
            end.host.link.heal()
        self.head.host.console("ip rule del pref 10 2>/dev/null && ip rule add pref 0 lookup local || true")


def healthy(two: Two) -> None:
    two.ready()
    two.ask()
    time.sleep(3)


def follower_killed_loading(two: Two) -> None:
    two.start()
    two.follower.until("Starting to load model")
    two.follower.kill()
    two.watch(90)


def follower_killed_joining(two: Two) -> None:
    """Before the two have met."""
    two.start()
    two.follower.until("headless multiproc executor")
    two.follower.kill()
    two.watch(60)


def follower_killed_ready(two: Two) -> None:
    two.ready()
    two.follower.kill()
    two.watch(20)
    two.ask()
    two.watch(60)


def follower_worker_killed_ready(two: Two) -> None:
    two.ready()
    two.follower.host.console(f"kill -KILL {two.follower.worker()}")
    two.watch(20)
    two.ask()
    two.watch(60)


def follower_worker_killed_loading(two: Two) -> None:
    two.start()
    two.follower.until("Starting to load model")
    two.follower.host.console(f"kill -KILL {two.follower.worker()}")
    two.watch(60)


def head_killed_ready(two: Two) -> None:
    two.ready()
    two.head.kill()
    two.watch(60)


def head_killed_loading(two: Two) -> None:
    two.start()
    two.head.until("Starting to load model")
    two.head.kill()
    two.watch(60)


def head_stopped_ready(two: Two) -> None:
    two.ready()
    two.head.session("TERM")
    two.watch(60)


def follower_stopped_ready(two: Two) -> None:
    two.ready()
    two.follower.host.console(f"kill -TERM $(cat {RUN}/sid)")
    two.watch(30)
    two.ask()
    two.watch(30)


def link_cut_ready(two: Two) -> None:
    two.ready()
    two.follower.host.link.cut()
    two.ask()
    two.watch(360)


def link_cut_loading(two: Two) -> None:
    two.start()
    two.follower.until("Starting to load model")
    two.follower.host.link.cut()
    two.watch(150)


def wrong_interface(two: Two) -> None:
    two.head.start()
    two.follower.start(GLOO_SOCKET_IFNAME="nosuch0")
    two.watch(200)


def loopback_interface(two: Two) -> None:
    """The follower tells the head to meet it at 127.0.0.1."""
    two.head.start()
    two.follower.start(GLOO_SOCKET_IFNAME="lo")
    two.watch(120)


def port_dropped(two: Two) -> None:
    """As by a firewall, in silence. What is for this host itself is looked up first of all, so that has to come later."""
    rule = f"ipproto 6 dport {PORT} iif {two.head.interface} blackhole pref 10"
    two.head.host.console(f"ip rule add pref 20 lookup local; ip rule del pref 0; ip rule add {rule}")
    for end in two.ends:
        end.more["distributed-timeout-seconds"] = 60  # half an hour else
    two.start()
    two.watch(400)


def follower_without_weights(two: Two) -> None:
    """Something of its own, while the head has all that it needs."""
    weights = f"{MODELS}/target/model.safetensors"
    two.follower.host.run(f"mv {weights} {weights}.away")
    try:
        two.start()
        two.watch(90)
    finally:
        two.follower.host.run(f"mv {weights}.away {weights}")


CASES: dict[str, Callable[[Two], None]] = {
    name.replace("_", "-"): case
    for name, case in list(globals().items())
    if callable(case)
    and getattr(case, "__module__", "") == __name__
    and isinstance(case, type(healthy))
    and not name.startswith("_")
}


def scrub(text: str, venv: object, two: Two) -> str:
    for here, there in (
        (str(venv), "/opt/vllm/builds/b1/venv"),
        (str(BUILDS), "/opt/vllm/builds"),
        (two.head.host.address, "192.0.2.1"),
        (two.follower.host.address, "192.0.2.2"),
        (two.head.host.link.name, "head"),
        (two.follower.host.link.name, "follower"),
    ):
        text = text.replace(here, there)
    return re.sub(r"/[\w./-]+/lib/python3\.(\d+)/(?!site-packages)", r"/usr/lib/python3.\1/", text)


# What the API server and a library say at length, and what nobody looks for.
NOISE = re.compile(r".*\[launcher\.py:\d+\] Route: |nanobind: | - (?:leaked|\.\.\. skipped) |See https://nanobind")


def shortened(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not NOISE.match(line))


def record(name: str, two: Two, venv: object, into: pathlib.Path) -> None:
    try:
        CASES[name](two)
    except BaseException as e:
        two.note(f"{type(e).__name__}: {str(e)[:2000]}")
    finally:
        for end in two.ends:
            (into / f"hosts-{name}-{end.name}.log").write_text(shortened(scrub(end.log(), venv, two)))
        two.clear()
        print(f"{name}:\n  " + "\n  ".join(two.notes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=pathlib.Path, default=LOGS)
    parser.add_argument("--beside", nargs="*", default=[], help="of these, all after another on two hosts more")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    arguments.into.mkdir(exist_ok=True, parents=True)
    with contextlib.ExitStack() as stack:

        def fleets(**counts: int) -> Fleet:
            return stack.enter_context(Fleet(**counts))  # type: ignore[arg-type]

        serving = Serving.on(fleets, "/opt/vllm", MODELS, systemd=0, plain=4 if arguments.beside else 2)
        hosts = serving.fleet.hosts
        drafter = json.loads((PAIR / "drafter/config.json").read_text())
        for host in hosts:
            host.write(f"{MODELS}/drafter/config.json", json.dumps({**drafter, **RIGHT, "use_sliding_window": True}))

        def all_of(names: list[str], head: Host, follower: Host) -> None:
            for name in names:
                record(name, Two(head, follower, serving.venv), serving.venv, arguments.into)

        others = threading.Thread(target=all_of, args=(arguments.beside, *hosts[2:])) if arguments.beside else None
        if others:
            others.start()
        all_of(arguments.names or [name for name in CASES if name not in arguments.beside], *hosts[:2])
        if others:
            others.join()


if __name__ == "__main__":
    main()

"""d. A re-run with nothing to do, against stock modules, on real hosts.

Each host has a double in vLLM's place (tests/fleet/double.py), since 32 engines want more memory than a machine for tests has. So what is
measured is Ansible and the collection, and nothing that an engine computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ansible_collections.llmops.vllm.tests.bench.plays import Played, played
from ansible_collections.llmops.vllm.tests.bench.results import Result, Target
from ansible_collections.llmops.vllm.tests.fleet import double
from ansible_collections.llmops.vllm.tests.fleet.acting import HOME, MODELS
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.serving import PAIR, Serving, lay

WAYS = {"site.yml": "site", "stock modules": "../tests/bench/stock/site"}
# As many round trips as site.yml needs, with nothing to do in them: what Ansible itself costs on this machine.
FLOOR = {"as many pings": "../tests/bench/stock/pings"}
SIZES = (1, 8, 32)
FORKS = 16


def serving(hosts: int, systemd: bool = True) -> Serving:
    """So many hosts with the double and the pair."""
    fleet = Fleet(systemd=hosts if systemd else 0, plain=0 if systemd else hosts, binds=[PAIR])
    for host in fleet.hosts:
        double.install(host)
        lay(host, MODELS)
    return Serving(fleet, double.VENV, HOME, MODELS)


def play(on: Serving, book: str, hosts: int) -> Played:
    def start(environment: dict[str, str]):
        more = {**environment, "ANSIBLE_FORKS": str(FORKS)}
        limit = ",".join(host.name for host in on.fleet.hosts[:hosts])
        return dataclasses.replace(on, environment=more).start(book, "--limit", limit)

    return played(start)


def measure() -> Iterator[Result]:
    on = serving(max(SIZES))
    try:
        runs = {}
        for way, book in {**WAYS, **FLOOR}.items():
            if way in WAYS:  # pings have nothing to bring about first
                play(on, book, max(SIZES))
            for size in SIZES:
                again = play(on, book, size)
                print(f"  {way} on {size}: {again.seconds:.1f} s", flush=True)
                if again.changed:
                    raise RuntimeError(f"{way} is not idempotent:\n{again.output}")
                runs[way, size] = again
    finally:
        on.fleet.close()
    for size in SIZES:
        rows = {way: _figures(runs[way, size], size) for way in (*WAYS, *FLOOR)}
        yield Result(
            f"d{size:02}-rerun",
            f"A run with nothing to do, on {size} host{'s' if size > 1 else ''}",
            f"The whole process, over SSH to real hosts, {FORKS} forks. A double stands in for vLLM, so no time of an engine is in it. The "
            "stock modules check the same, but for the drafter's weights, what the venv holds and whose the process is, which they can't. The "
            "hosts share the controller's cores here, so many of them cost what one costs many times over, pings as well. What the "
            "controller needs for itself is in its own column.",
            (
                "seconds",
                "CPU seconds of the controller",
                "tasks per host",
                "ssh calls per host",
                "MiB on the controller",
            ),
            rows,
            "seconds",
            list(_targets(runs, size)),
        )


def _figures(run: Played, hosts: int) -> list[float | str]:
    return [run.seconds, run.busy, run.tasks / hosts, run.calls / hosts, run.megabytes]


def _targets(runs: dict[tuple[str, int], Played], size: int) -> Iterator[Target]:
    ours, stock = (runs[way, size].seconds for way in WAYS)
    if size == 1:
        yield Target("At most 10 s on one host", ours, 10)
    if size == 8:
        yield Target("At most twice the time of one host", ours / runs["site.yml", 1].seconds, 2)
    yield Target("At least 2 times faster than stock modules", stock / ours, 2, least=True)

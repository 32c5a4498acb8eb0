"""e. A whole deploy with the real engine: its time less the engine's own start, against stock modules."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from ansible_collections.llmops.vllm.tests.bench.plays import played
from ansible_collections.llmops.vllm.tests.bench.rerun import WAYS
from ansible_collections.llmops.vllm.tests.bench.results import Result, Target
from ansible_collections.llmops.vllm.tests.fleet.acting import HOME, MODELS
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.serving import Serving

UNITS = {"site.yml": "vllm-default", "stock modules": "stock"}
READY = "Application startup complete"


def measure() -> Iterator[Result]:
    rows = {}
    for way, book in WAYS.items():
        with contextlib.ExitStack() as open_:  # a host of its own for each, as neither has a cold cache then
            on = Serving.on(lambda open_=open_, **asked: open_.enter_context(Fleet(**asked)), HOME, MODELS, systemd=1)
            run = played(lambda more, on=on, book=book: dataclasses.replace(on, environment=more).start(book))
            engine = _started(on.fleet.hosts[0], UNITS[way])
        rows[way] = (run.seconds - engine, run.seconds, engine)
    yield Result(
        "e-deploy",
        "A whole deploy, on one host",
        "A host with a venv and the models and nothing else, over SSH, to a real engine that is measured. The engine's own start is from the start of "
        "its process to its ready line, by the host's journal. Ours also asks the build's parser whether it takes the arguments, "
        "proves the venv, and both ask the prompts of the measurement.",
        ("seconds besides the engine's start", "seconds in all", "seconds of the engine's start"),
        rows,
        "seconds besides the engine's start",
        [Target("At most 20 s besides the engine's start", rows["site.yml"][0], 20)],
    )


def _started(host: Host, unit: str) -> float:
    """Seconds from the start of the unit's process to the ready line."""
    began = host.run(f'date -d "$(systemctl show --value -p ExecMainStartTimestamp {unit})" +%s').stdout
    lines = host.run(f"journalctl --unit {unit} --no-pager --output short-unix").stdout.splitlines()
    ready = next(line for line in lines if READY in line)
    return float(ready.split()[0]) - float(began)

"""Plays over hosts with the double, struck at a named task, and what became of each host."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansible_collections.llmops.vllm.tests.fleet import double
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import CLONE, PAIR, Serving, lay

HOME, MODELS = "/opt/vllm", "/srv/models"


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a play came to. how: failed, unreachable, or nothing if it went well."""

    code: int
    output: str
    last: Mapping[str, Mapping[str, str]]
    recap: Mapping[str, Mapping[str, int]]

    def said(self, host: str) -> str:
        """The last thing that went wrong there."""
        return self.last[host]["said"] if host in self.last else ""

    def how(self, host: str) -> str:
        """unreachable, failed, or nothing if all is well."""
        recap = self.recap[host]
        return "unreachable" if recap["unreachable"] else "failed" if recap["failures"] else ""


class Run:
    """A play under way, which stands still before the tasks that it was given as cues."""

    def __init__(self, process: subprocess.Popen[str], place: Path) -> None:
        self.process, self.place = process, place

    def strike(self, number: int, blow: Callable[[], object]) -> None:
        """Let it befall when the play stands before that task."""
        held = self.place / f"{number}.held"
        wait_for(f"cue {number}", lambda: held.exists() or self.process.poll() is not None, 300)
        assert held.exists(), f"the play ended before cue {number}:\n{self.process.communicate()[0]}"
        blow()
        (self.place / f"{number}.go").touch()

    def end(self) -> Ended:
        output = self.process.communicate()[0]
        print(output)
        ended, recap = self.place / "ended.jsonl", self.place / "recap.json"
        rows = [json.loads(line) for line in ended.read_text().splitlines()] if ended.exists() else []
        return Ended(
            self.process.returncode,
            output,
            {row["host"]: row for row in rows},
            json.loads(recap.read_text()) if recap.exists() else {},
        )


class Cast:
    """Hosts with the double and the tiny pair."""

    def __init__(self, fleets: Callable[..., Fleet], place: Path, binds: Sequence[Path] = (), **counts: int) -> None:
        self.place = place
        self.reports = place / "reports"
        self.reports.mkdir()
        self.runs: list[Run] = []
        self.fleet = fleets(**counts, binds=[PAIR, *binds])
        for host in self.fleet.hosts:
            double.install(host)
            lay(host, MODELS)

    def start(
        self,
        playbook: str = "site",
        *options: str,
        cues: Sequence[str] = (),
        hosts: Mapping[str, Mapping[str, object]] | None = None,
        **variables: object,
    ) -> Run:
        """hosts: variables of each. Only these take part, or all."""
        place = Path(tempfile.mkdtemp(dir=self.place))
        (place / "cues.json").write_text(json.dumps(list(cues)))
        (place / "hosts.json").write_text(json.dumps({"all": {"hosts": dict(hosts or {})}}))
        environment = {
            "STAGEHAND": str(place),
            "ANSIBLE_CALLBACK_PLUGINS": str(CLONE / "tests/fleet/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "llmops.vllm.report,stagehand",
            "VLLM_REPORT_DIRECTORY": str(self.reports),
            "ANSIBLE_FORKS": str(len(self.fleet.hosts)),
            # As ansible.cfg has it, but noticed within 5 s.
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=1 -o ServerAliveCountMax=5",
        }
        serving = Serving(self.fleet, double.VENV, HOME, MODELS, environment)
        limit = ["--limit", ",".join(hosts)] if hosts else []
        # What is given to all hosts would go before what one of them is given.
        variables.setdefault("vllm_serve_timeout", "{{ patience | default(600) }}")
        process = serving.start(playbook, "-i", str(place / "hosts.json"), *limit, *options, **variables)
        self.runs.append(Run(process, place))
        return self.runs[-1]

    def interrupt(self) -> None:
        """End what a test that failed has left running."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.communicate()
        self.runs.clear()

    def play(self, playbook: str = "site", *options: str, **more: object) -> Ended:
        return self.start(playbook, *options, **more).end()

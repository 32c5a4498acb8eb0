"""Lets a test strike at a named task of a play, and tells it what became of each task on each host.

STAGEHAND names a directory: `cues.json` there lists names of tasks, in order, and the play stands still before each of them, from the
making of `<n>.held` to that of `<n>.go`. What ended badly is written to `ended.jsonl`, and the recap to `recap.json`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase

PATIENCE = 300  # seconds that a test may take to strike

DOCUMENTATION = """
name: stagehand
type: aggregate
short_description: Stands still at named tasks, for tests
description: [Stands still at named tasks, for tests.]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stagehand"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(os.environ["STAGEHAND"])
        self.cues = json.loads((self.place / "cues.json").read_text())
        self.number = 0

    def v2_playbook_on_task_start(self, task, is_conditional) -> None:
        if self.number == len(self.cues) or task.name != self.cues[self.number]:
            return
        (self.place / f"{self.number}.held").touch()
        deadline = time.monotonic() + PATIENCE
        while not (self.place / f"{self.number}.go").exists():
            if time.monotonic() > deadline:
                os._exit(99)
            time.sleep(0.02)
        self.number += 1

    def v2_runner_on_failed(self, result, ignore_errors=False) -> None:
        if not ignore_errors:
            self.ended(result, "failed")

    def v2_runner_on_unreachable(self, result) -> None:
        self.ended(result, "unreachable")

    def v2_playbook_on_stats(self, stats) -> None:
        (self.place / "recap.json").write_text(json.dumps({host: stats.summarize(host) for host in stats.processed}))

    def ended(self, result, how: str) -> None:
        host, task, data = (getattr(result, n, None) or getattr(result, f"_{n}") for n in ("host", "task", "result"))
        said = " ".join(str(data.get(key) or "") for key in ("msg", "module_stderr", "module_stdout", "stderr"))
        row = {"host": host.get_name(), "how": how, "task": task.name, "said": " ".join(said.split())}
        with open(self.place / "ended.jsonl", "a") as f:
            f.write(json.dumps(row) + "\n")

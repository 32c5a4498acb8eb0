# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: report
type: aggregate
short_description: One page that shows what a run did, and the same as JSON
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Listens to a run of any playbook that uses roles of this collection, and writes when it ends, well or not,
    C(<playbook>-<time>.html), which is all in one file, and C(<playbook>-<time>.json), which holds the same.
  - Shows the hosts by batch with their verdicts, when each was at what, the acceptance by position before and after, what was wrong with
    the drafter's config, and what failed.
  - Takes only what the modules of this collection return and what a failed task says. What is marked C(no_log) is not read, and what
    looks like a key or a token is masked.
  - If it can't do its work it warns once, and the run goes on.
requirements:
  - It is enabled by naming it in C(callbacks_enabled) of C(ansible.cfg).
options:
  directory:
    description: Where the files are written, on the controller. It is made when missing. In C(ansible.cfg) relative to that file.
    type: path
    default: vllm-reports
    env:
      - name: VLLM_REPORT_DIRECTORY
    ini:
      - section: callback_report
        key: directory
"""

EXAMPLES = r"""
ansible.cfg: |
  [defaults]
  callbacks_enabled = llmops.vllm.report

  [callback_report]
  directory = reports
"""

import functools
import json
import os
import time
from typing import Any, Callable

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.page import page
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Run
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.recorder import Recorder, Result

OURS = "llmops.vllm."


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """A fault of the report is one warning, and the end of the report."""

    @functools.wraps(method)
    def tried(self: CallbackModule, *args: Any, **kwargs: Any) -> None:
        if self.broken:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as e:
            self.broken = True
            self._display.warning(f"There will be no report of this run: {type(e).__name__}: {e}")

    return tried


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "llmops.vllm.report"
    CALLBACK_NEEDS_ENABLED = True

    broken = False

    @_harmless
    def v2_playbook_on_start(self, playbook: Any) -> None:
        name = os.path.splitext(os.path.basename(playbook._file_name))[0]
        self.recorder = Recorder(name, time.time(), bool(context.CLIARGS.get("check")))

    @_harmless
    def v2_playbook_on_play_start(self, play: Any) -> None:
        hosts = play.get_variable_manager().get_vars(play=play)
        self.recorder.play(play._uuid, play.get_name(), hosts["ansible_play_hosts_all"], hosts["ansible_play_batch"])

    @_harmless
    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self.recorder.start(host.get_name(), _role(task), time.time())

    @_harmless
    def v2_runner_on_ok(self, result: Any) -> None:
        self._end(result)

    @_harmless
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._end(result, failed=not ignore_errors)

    @_harmless
    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._end(result, failed=True)

    def _end(self, result: Any, failed: bool = False) -> None:
        task = _of(result, "task")
        data = _of(result, "result")
        hidden = task.no_log is True or "censored" in data or data.get("_ansible_no_log")
        self.recorder.end(
            Result(
                host=_of(result, "host").get_name(),
                task=task.name or task.get_name(),
                role=_role(task),
                module=_module(task),
                data=None if hidden else data,
                at=time.time(),
                failed=failed,
            )
        )

    @_harmless
    def v2_playbook_on_stats(self, stats: Any) -> None:
        run = self.recorder.finish(time.time(), stats.failures, stats.dark)
        if run:
            self._display.display(f"Report: {write(run, self.get_option('directory'))}")


def write(run: Run, directory: str) -> str:
    """Writes both files, whole or not at all, and returns the page's path."""
    os.makedirs(directory, exist_ok=True)
    stamp = "".join(c for c in run.started if c.isalnum())[:15]
    name = os.path.join(directory, f"{run.playbook}-{stamp}Z")
    # Two runs may begin within a second.
    taken = 1
    while os.path.lexists(f"{name}.json"):
        taken += 1
        name = os.path.join(directory, f"{run.playbook}-{stamp}Z-{taken}")
    texts = {"html": page(run), "json": json.dumps(run.data(), indent=2, ensure_ascii=False) + "\n"}
    for kind, text in texts.items():
        part = f"{name}.{kind}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(part, f"{name}.{kind}")
    return f"{name}.html"


def _of(result: Any, name: str) -> Any:
    """Of a result: ansible-core 2.18 has these only with an underscore."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, f"_{name}")


def _role(task: Any) -> str:
    role = task._role.get_name(include_role_fqcn=True) if task._role else ""
    return role[len(OURS) :] if role.startswith(OURS) else ""


def _module(task: Any) -> str:
    # A name that is a template is resolved too late or too early to be asked for, with a warning.
    name = str((None if "{{" in task.action else task.resolved_action) or task.action)
    if name.startswith(OURS):
        return name[len(OURS) :]
    return "set_fact" if name.rpartition(".")[2] == "set_fact" else ""

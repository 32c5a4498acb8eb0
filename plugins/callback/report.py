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
  - Listens to a run of any playbook that uses roles of this collection, and writes C(<playbook>-<time>.html), which is all in one file,
    and C(<playbook>-<time>.json), which holds the same.
  - Both are written as the run goes, at most a few seconds behind it. So a run that was interrupted, or whose controller was killed,
    leaves what it came to, and says that it is unfinished.
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

import atexit
import functools
import os
import threading
import time
from typing import Any, Callable

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.llmops.vllm.plugins.module_utils._host import refusals
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.files import Files
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Run
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.recorder import Recorder, Result

OURS = "llmops.vllm."

BEHIND = 1.0
"""Seconds that what is written may be behind."""
SHARE = 20
"""So many times as long as the writing takes, it may be behind too, so that a large run isn't held up."""


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """One at a time. A fault of the report is one warning, and the end of the report."""

    @functools.wraps(method)
    def tried(self: CallbackModule, *args: Any, **kwargs: Any) -> None:
        with self.lock:
            if self.broken:
                return
            try:
                method(self, *args, **kwargs)
            except Exception as e:
                self.broken = True
                why = refusals.told(e, "the report") if isinstance(e, OSError) else f"{type(e).__name__}: {e}"
                self._display.warning(f"There will be no report of this run: {why}")

    return tried


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "llmops.vllm.report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lock = threading.RLock()
        self.broken, self.over, self.waiting = False, True, False
        # Of an interruption Ansible tells nobody.
        atexit.register(self._end_early, os.getpid())

    @_harmless
    def v2_playbook_on_start(self, playbook: Any) -> None:
        name = os.path.splitext(os.path.basename(playbook._file_name))[0]
        self.recorder = Recorder(name, time.time(), bool(context.CLIARGS.get("check")))
        self.files = Files(self.get_option("directory"))
        self.pause, self.over = BEHIND, False

    @_harmless
    def v2_playbook_on_play_start(self, play: Any) -> None:
        hosts = play.get_variable_manager().get_vars(play=play)
        self.recorder.play(play._uuid, play.get_name(), hosts["ansible_play_hosts_all"], hosts["ansible_play_batch"])

    @_harmless
    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self.recorder.cut()

    @_harmless
    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self.recorder.start(host.get_name(), _role(task), time.time(), task.name or task.get_name())
        self._soon()

    @_harmless
    def v2_runner_on_skipped(self, result: Any) -> None:
        self.recorder.skip(_of(result, "host").get_name())

    @_harmless
    def v2_runner_on_ok(self, result: Any) -> None:
        self._end(result)

    @_harmless
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._end(result, failed=not ignore_errors)

    @_harmless
    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._end(result, failed=True, lost=True)

    def _end(self, result: Any, failed: bool = False, lost: bool = False) -> None:
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
                lost=lost,
            )
        )
        self._soon()

    def _soon(self) -> None:
        """Has what is known written in a moment, with all that comes until then."""
        if not self.waiting:
            self.waiting = True
            timer = threading.Timer(self.pause, self._write_so_far)
            timer.daemon = True
            timer.start()

    @_harmless
    def _write_so_far(self) -> None:
        self.waiting = False
        if self.over:
            return
        began = time.monotonic()
        run = self.recorder.so_far(time.time())
        if run:
            self.files.write(run)
        self.pause = max(BEHIND, SHARE * (time.monotonic() - began))

    @_harmless
    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._finish(self.recorder.finish(time.time(), stats.failures, stats.dark))

    @_harmless
    def _end_early(self, pid: int) -> None:
        if pid == os.getpid() and not self.over:  # and in none of its forks
            self._finish(self.recorder.so_far(time.time()))

    def _finish(self, run: Run | None) -> None:
        self.over = True
        if run:
            self._display.display(f"Report: {self.files.write(run)}")


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

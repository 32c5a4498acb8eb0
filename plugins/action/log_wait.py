# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of log_wait: waits in slices, shows progress, and comes back after a lost connection."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

SLICE = 10
"""Seconds that one run on the host lasts; as much of a wait is lost with a connection."""
RETRY = 2
"""Seconds between attempts to reach a lost host."""

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        arguments = {k: v for k, v in self._task.args.items() if not k.startswith("_")}
        if self._task.async_val or self._task.check_mode:
            result.update(
                self._execute_module(module_args=arguments, task_vars=task_vars, wrap_async=self._task.async_val)
            )
            return result
        result.update(self._wait(arguments, task_vars))
        return result

    def _wait(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        host = (task_vars or {}).get("inventory_hostname", "")
        try:
            limit = float(arguments.get("timeout", 1800))
        except (TypeError, ValueError):
            limit = 0.0  # the module says what is wrong with it
        began = time.monotonic()
        state: dict[str, Any] = {}
        shown, reconnects = "", 0
        while True:
            elapsed = time.monotonic() - began
            part = {"seconds": SLICE, "elapsed": elapsed, "state": state, "reconnects": reconnects}
            try:
                got = self._execute_module(module_args=dict(arguments, _slice=part), task_vars=task_vars)
            except AnsibleConnectionFailure as e:
                if time.monotonic() - began >= limit:
                    raise
                reconnects += 1
                display.display(f"[{host}] connection lost ({elapsed:.0f} s), reconnecting: {e}")
                self._reset()
                time.sleep(RETRY)
                continue
            state = got.pop("_state", None) or {}
            progress = got.pop("_progress", None)
            if not state:
                got.pop("invocation", None)
                return got
            if progress and progress["stage"] and progress["stage"] != shown:
                shown = progress["stage"]
                percent = f" {progress['percent']} %" if progress["percent"] is not None else ""
                display.display(f"[{host}] {shown}{percent} ({got['elapsed']:.0f} s)")

    def _reset(self) -> None:
        try:
            self._connection.reset()
        except (AttributeError, AnsibleConnectionFailure, OSError):
            self._connection.close()

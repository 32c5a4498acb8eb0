# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of log_wait: waits in slices, shows progress, and comes back after a lost connection."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.llmops.vllm.plugins.plugin_utils.together import Alone, TogetherError, company

SLICE = 60
"""Seconds that one run on the host lasts, unless there is something to show before. A run costs the host half a second of a core, and as
much of a wait is lost with a connection."""
OVERDUE = 8
"""A slice that takes so much longer has lost its connection, though nobody has noticed: TCP is patient. Or its host is slow, so
each time that this happens the next slice gets twice as long."""
RETRY = 2
"""Seconds between attempts to reach a lost host."""

display = Display()


class OverdueError(BaseException):
    """A slice did not come back. Not an Exception, so that no connection plugin takes it for one of its own and tries again."""


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        arguments = {name: value for name, value in self._task.args.items() if name != "slice"}
        if self._task.async_val or self._task.check_mode:
            got = self._execute_module(
                module_args=arguments, task_vars=task_vars, wrap_async=bool(self._task.async_val)
            )
        else:
            got = self._wait(arguments, task_vars or {})
        return {**result, **got}

    def _wait(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        host = task_vars.get("inventory_hostname", "")
        limit = _seconds(arguments.get("timeout", 1800))
        try:
            others = company(arguments.get("together") if limit else None, host)
            with others.told():
                return self._slices(arguments, task_vars, others, limit)
        except TogetherError as e:
            return {**_nothing(0, arguments), "changed": False, "failed": True, "verdict": "failed", "msg": str(e)}

    def _slices(
        self, arguments: dict[str, Any], task_vars: dict[str, Any], others: Alone, limit: float
    ) -> dict[str, Any]:
        host = task_vars.get("inventory_hostname", "")
        began = time.monotonic()
        state, shown, reconnects, lost = "", "", 0, False
        patience = float(SLICE + OVERDUE)
        known: dict[str, Any] = {}
        while True:
            elapsed = time.monotonic() - began
            failure = others.failure()
            seconds = others.seconds(SLICE, failure)
            part = {"seconds": seconds, "elapsed": elapsed, "reconnects": reconnects + lost, "state": state}
            try:
                with _overdue(None if self._task.timeout else others.patience(patience)):
                    got = self._execute_module(module_args={**arguments, "slice": part}, task_vars=task_vars)
            except (AnsibleConnectionFailure, OverdueError) as e:
                if failure:
                    return others.elsewhere(known or _nothing(elapsed, arguments), failure)
                # Who is refused stays refused; and what has never been reached is not lost, though it may be slow.
                refused = isinstance(e, AnsibleAuthenticationFailure) or not (state or isinstance(e, OverdueError))
                if refused or time.monotonic() - began >= limit or others.lost():
                    if isinstance(e, OverdueError):
                        raise AnsibleConnectionFailure(f"The host did not answer while log_wait waited: {e}") from e
                    raise
                if not lost:
                    display.display(f"[{host}] connection lost ({elapsed:.0f} s), trying again")
                lost = True
                patience *= 2 if isinstance(e, OverdueError) else 1
                self._reset()
                time.sleep(RETRY)
                continue
            reconnects, lost = reconnects + lost, False
            after = got.pop("_state", "")
            progress = got.pop("_progress", None) or {}
            got.get("invocation", {}).get("module_args", {}).pop("slice", None)
            if not after:
                result = others.decided(got, time.monotonic() - began >= limit)
                if result is not None:
                    return result
                time.sleep(seconds)  # the log is not left where it says so: what comes after may speak against it
                continue
            state, known = after, got
            others.answered()
            if failure:
                return others.elsewhere(known, failure)
            if progress.get("stage") and progress["stage"] != shown:
                shown = progress["stage"]
                percent = "" if progress["percent"] is None else f" {progress['percent']} %"
                display.display(f"[{host}] {shown}{percent} ({got['elapsed']:.0f} s)")
            result = others.led(got)
            if result is not None:
                return result

    def _reset(self) -> None:
        try:
            self._connection.reset()
        except (AttributeError, NotImplementedError, AnsibleConnectionFailure, OSError):
            self._connection.close()


def _nothing(elapsed: float, arguments: dict[str, Any]) -> dict[str, Any]:
    """The shape of a result, of a host that gave none."""
    counts = {"lines": 0, "bytes": 0, "reconnects": 0, "elapsed": round(elapsed, 1)}
    return {"was_ready": False, "stages": [], "facts": {}, **counts, "mark": arguments.get("mark") or {}}


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0  # the module says what is wrong with it


@contextlib.contextmanager
def _overdue(seconds: float | None) -> Iterator[None]:
    """Raises OverdueError if what is done here takes longer. A task with a timeout of its own has an alarm already."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: Any) -> None:
        raise OverdueError(f"no answer for {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

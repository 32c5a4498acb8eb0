#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: log_wait
short_description: Wait until a server's log says that it is ready, or why it will never be
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Follows the log of a starting vLLM server, or of any long job, and returns as soon as it is ready, has failed, has been
    stopped or has died.
  - A failure comes with its root cause. The lines of the server's processes are told apart, exceptions that only pass on
    another one's are skipped, and the usual causes come with a remedy.
  - What merely sounds like a failure is passed over; that goes for everything that vLLM says at the levels INFO and WARNING.
  - Only what was written after O(mark) counts.
  - The wait is cut into short runs on the managed host. A lost connection costs one of them, not the wait.
  - Fails the task unless the log says ready; with O(timeout=0) it also returns while nothing is decided.
options:
  path:
    description:
      - The log. It may appear during the wait, grow, be rotated, emptied or replaced.
    type: path
    required: true
  mark:
    description:
      - Where to begin, as RV(mark) of an earlier run or of the module that started the server.
      - A dictionary with V(path), V(device), V(inode) and V(offset). Wins over O(since).
    type: dict
  since:
    description:
      - Where to begin without a O(mark).
    type: str
    choices: [start, end]
    default: start
  profile:
    description:
      - V(vllm) knows the lines of vLLM, V(none) knows only what is given by O(ready), O(failed), O(ignore) and O(stages).
    type: str
    choices: [vllm, none]
    default: vllm
  ready:
    description:
      - Regular expressions of lines that mean success. They add to those of the profile.
    type: list
    elements: str
    default: []
  failed:
    description:
      - Regular expressions of lines that mean failure, at whatever level. The first group, if there is one, is the cause.
    type: list
    elements: str
    default: []
  ignore:
    description:
      - Regular expressions of lines that mean nothing.
    type: list
    elements: str
    default: []
  stages:
    description:
      - Regular expressions of lines that begin a stage of the work, which is shown as progress. The first group, or all that
        matched, is the name of the stage.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Seconds to wait. V(0) judges what is there and returns.
    type: int
    default: 1800
  stall:
    description:
      - Give up after so many seconds without a new line. Lines that only repeat that something is awaited are not new.
    type: int
  pid:
    description:
      - The server's process. Its end ends the wait.
    type: int
  pidfile:
    description:
      - The pid file of M(llmops.vllm.vllm_process), or one that holds nothing but a number. The end of that process ends the
        wait.
    type: path
  context:
    description:
      - How many lines to return around a cause.
    type: int
    default: 10
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - Says what it would wait for, and does not wait.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
    details:
      - It changes nothing.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
seealso:
  - module: ansible.builtin.wait_for
"""

EXAMPLES = r"""
- name: Wait until the server is ready, or tell why it is not
  llmops.vllm.log_wait:
    path: /opt/vllm/instances/default/log/r1-1.log
    pidfile: /opt/vllm/instances/default/run/server.pid
    timeout: 1800

- name: Is the server still well?
  llmops.vllm.log_wait:
    path: "{{ launch.mark.path }}"
    mark: "{{ launch.mark }}"
    timeout: 0

- name: Follow any long job
  llmops.vllm.log_wait:
    path: /opt/vllm/builds/b1/build.log
    profile: none
    ready: ['^BUILD COMPLETE']
    failed: ['^BUILD FAILED: (.*)']
    stages: ['^(\[\d+/\d+\] .*)']
"""

RETURN = r"""
verdict:
  description:
    - V(ready), V(failed), V(exited) (the process ended and the log does not say why), V(stopped) (as somebody asked it to),
      V(stalled), V(timeout), V(missing) (no log), or V(pending) (nothing is decided, with O(timeout=0)).
  returned: always
  type: str
  sample: ready
was_ready:
  description: Whether the log said ready at some time, whatever came after.
  returned: always
  type: bool
matched:
  description: The line that decided, with its V(number), as it is written (V(line)) and what it says (V(text)).
  returned: when a line decided
  type: dict
  sample: {"line": "INFO:     Application startup complete.", "number": 126, "text": "Application startup complete."}
cause:
  description:
    - The root cause of a failure. V(kind) is the sort of trouble, V(text) the whole message, V(number) and V(process) tell
      where it stands, V(hint) is a remedy, V(context) holds the lines before it.
  returned: when the log tells a cause
  type: dict
stages:
  description: The stages that were passed, by V(name), with the V(seconds) that each took.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "starting the engine", "seconds": 9.0}]
facts:
  description: What the server tells of itself on the way.
  returned: always
  type: dict
  sample: {"version": "0.32.0", "world_size": 1, "auxiliary_layers": [2, 4, 6], "kv_tokens": 164472}
warnings:
  description: What happened to the log during the wait that should not have.
  returned: when there is something
  type: list
  elements: str
elapsed:
  description: Seconds waited.
  returned: always
  type: float
lines:
  description: Lines read.
  returned: always
  type: int
bytes:
  description: Bytes read.
  returned: always
  type: int
reconnects:
  description: How often the connection to the host was lost and made again.
  returned: always
  type: int
mark:
  description: Where the next wait would begin.
  returned: always
  type: dict
  sample: {"path": "/opt/vllm/instances/default/log/r1-1.log", "device": 2049, "inode": 131, "offset": 24814}
"""

import dataclasses
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmops.vllm.plugins.module_utils._logs import report
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower, NotALog
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge, Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Life
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import mask
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Stage
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "mark": {"type": "dict"},
            "since": {"type": "str", "choices": ["start", "end"], "default": "start"},
            "profile": {"type": "str", "choices": ["vllm", "none"], "default": "vllm"},
            "ready": {"type": "list", "elements": "str", "default": []},
            "failed": {"type": "list", "elements": "str", "default": []},
            "ignore": {"type": "list", "elements": "str", "default": []},
            "stages": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 1800},
            "stall": {"type": "int"},
            "pid": {"type": "int"},
            "pidfile": {"type": "path"},
            "context": {"type": "int", "default": 10},
            "_slice": {"type": "dict"},
        },
        mutually_exclusive=[("pid", "pidfile")],
        supports_check_mode=True,
    )
    profile = read_profile(module)
    if module.check_mode:
        module.exit_json(**would_wait(module.params))
    try:
        result, verdict = wait(module.params, profile)
    except NotALog as e:
        module.fail_json(msg=str(e))
    good = verdict == "ready" or (verdict == "pending" and (module.params["timeout"] == 0 or "_state" in result))
    (module.exit_json if good else module.fail_json)(**result)


def wait(params: dict[str, Any], profile: Profile) -> tuple[dict[str, Any], str]:
    part = params["_slice"] or {}
    state = part.get("state") or {}
    elapsed = float(part.get("elapsed") or 0)
    follower = Follower(params["path"], state.get("mark") or params["mark"], params["since"])
    judge = Judge(profile, params["context"])
    if state:
        judge.load(state["judge"])
    life = Life(params["pid"], params["pidfile"] or "", state.get("life"))
    limits = Limits(params["timeout"], params["stall"], elapsed + float(part["seconds"]) if part else None)
    waiting = Wait(follower, judge, life, limits, elapsed, state)
    verdict = waiting.run()
    follower.close()
    judge = waiting.judge
    cause = judge.cause() if verdict in ("failed", "exited") else None
    matched = {"ready": judge.ready, "failed": judge.failed, "stopped": judge.stopping}.get(verdict)
    stage = judge.progress.stage
    result = {
        "changed": False,
        "verdict": verdict,
        "was_ready": bool(judge.ready),
        "stages": judge.progress.durations(waiting.elapsed),
        "facts": judge.progress.facts,
        "elapsed": round(waiting.elapsed, 1),
        "lines": judge.lines,
        "bytes": waiting.bytes,
        "reconnects": int(part.get("reconnects") or 0),
        "mark": waiting.mark(),
        "msg": report.message(
            verdict,
            source=params["path"],
            elapsed=waiting.elapsed,
            limit=params["timeout"],
            ready=judge.ready,
            cause=cause,
            matched=matched,
            stage=stage,
            pid=life.pid,
            exit=waiting.exit,
            recent=judge.recent,
            reconnects=int(part.get("reconnects") or 0),
        ),
    }
    if matched:
        result["matched"] = dataclasses.asdict(matched)
    if cause:
        result["cause"] = {k: getattr(cause, k) for k in ("kind", "number", "process", "text", "hint", "context")}
    if judge.notes or follower.notes:
        result["warnings"] = judge.notes + follower.notes
    result = masked(result)
    if part and verdict == "pending":
        result["_state"] = waiting.state()
        result["_progress"] = {"stage": stage, "percent": judge.progress.percent}
    return result, verdict


def masked(value: Any) -> Any:
    """The value with every text in it masked."""
    if isinstance(value, dict):
        return {k: masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v) for v in value]
    return mask(value) if isinstance(value, str) else value


def read_profile(module: AnsibleModule) -> Profile:
    def compiled(option: str) -> list[re.Pattern[str]]:
        found = []
        for text in module.params[option]:
            try:
                found.append(re.compile(text))
            except re.error as e:
                module.fail_json(msg=f"{option}: {text!r} is no regular expression: {e}.")
        return found

    def patterns(option: str) -> list[Pattern]:
        return [Pattern(r.pattern, option, r, raw=True) for r in compiled(option)]

    stages = [Stage("", r) for r in compiled("stages")]
    return Profile(
        patterns("ready"), patterns("failed"), patterns("ignore"), stages, module.params["profile"] == "vllm"
    )


def would_wait(params: dict[str, Any]) -> dict[str, Any]:
    what = (
        "a ready vLLM server"
        if params["profile"] == "vllm"
        else " or ".join(params["ready"]) or "the end of its process"
    )
    return {
        "changed": False,
        "verdict": "pending",
        "was_ready": False,
        "stages": [],
        "facts": {},
        "elapsed": 0.0,
        "lines": 0,
        "bytes": 0,
        "reconnects": 0,
        "mark": params["mark"] or {},
        "msg": f"Would wait up to {params['timeout']} s for {what} in {params['path']}.",
    }


if __name__ == "__main__":
    main()

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
  - Only what was written after O(mark) counts, and of several launches of vLLM only the last.
  - The wait is cut into short runs on the managed host. A lost connection costs one of them, not the wait.
  - Fails the task unless the log says ready; with O(timeout=0) it also returns while nothing is decided.
options:
  path:
    description:
      - The log. It may appear during the wait, grow, be rotated, emptied or replaced.
      - One of O(path) and O(unit) is required.
    type: path
  unit:
    description:
      - A systemd unit, with its suffix. Without a O(path), its journal is the log. Its end ends the wait.
    type: str
  mark:
    description:
      - Where to begin, as RV(mark) of an earlier wait or of M(llmops.vllm.vllm_process).
      - Names a file by its identity, so that a rotated log is found again. Wins over O(since).
    type: dict
  since:
    description:
      - Where to begin without a O(mark). For a journal, V(start) is where the unit was started.
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
      - Lines that mean success. They add to those of the profile.
      - Each is a regular expression, or a dictionary with one as V(pattern) and optionally a V(name), a V(kind), a V(hint) and
        a V(sample) line that the pattern has to match.
      - It is searched in the text of a line without process, level and time, and in the whole line.
    type: list
    elements: raw
    default: []
  failed:
    description:
      - Lines that mean failure, at whatever level, as in O(ready). The first group, if there is one, is the cause; the V(hint)
        is shown as the remedy.
    type: list
    elements: raw
    default: []
  ignore:
    description:
      - Lines that mean nothing, as in O(ready).
    type: list
    elements: raw
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
  probe:
    description:
      - A second witness, for a server whose log does not say that it is ready, such as one with a high log level.
      - An answer counts only if it comes from the process that is watched, so that an earlier server that still holds the port
        is not taken for this one.
    type: dict
    suboptions:
      url:
        description: An address that answers once the server is ready, as V(http://127.0.0.1:8000/v1/models).
        type: str
        required: true
      api_key:
        description: Sent as bearer token, shown nowhere.
        type: str
  context:
    description:
      - How many lines to return that lead to the cause.
    type: int
    default: 10
  together:
    description:
      - The waits of several hosts, run at once by one task, are one wait. For a server that spans hosts, of which only one, the leader,
        says that it is ready.
      - The others are ready as the leader is, if nothing speaks against them. The first host that fails, or is not reached for 60
        seconds, ends the waits of all; so does a leader that is ready while another host has failed.
      - All hosts have to be waited for at once, so Ansible needs as many forks as there are hosts.
      - Without effect with O(timeout=0), with C(async) and in check mode.
    type: dict
    suboptions:
      key:
        description: What the waits have in common, and no other wait of this run has, as an id of the launch.
        type: str
        required: true
      leader:
        description: The host, as the inventory names it, that says when all are ready.
        type: str
        required: true
      hosts:
        description: All hosts, the leader among them, as the inventory names them.
        type: list
        elements: str
        required: true
  slice:
    description:
      - What the action plugin of this module tells it, to wait in parts. Not for playbooks, where it has no effect.
    type: dict
    suboptions:
      seconds:
        description: How long this part lasts.
        type: float
        required: true
      elapsed:
        description: How long the wait has lasted before.
        type: float
        default: 0
      reconnects:
        description: How often the connection was made again.
        type: int
        default: 0
      state:
        description: What the part before knew.
        type: str
extends_documentation_fragment:
  - llmops.vllm.read_only
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - Says what it would wait for, and does not wait.
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

- name: Wait for a server that spans hosts
  llmops.vllm.log_wait:
    unit: vllm-default.service
    together:
      key: "{{ launch_id }}"
      leader: gpu1
      hosts: [gpu1, gpu2]

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
      V(stalled), V(timeout), V(missing) (no log), V(elsewhere) (it is well as far as known, and another host of O(together) failed), or
      V(pending) (nothing is decided, with O(timeout=0)).
  returned: always
  type: str
  sample: ready
was_ready:
  description: Whether the log said ready at some time, whatever came after. With O(together), or that of the leader.
  returned: always
  type: bool
matched:
  description:
    - The line that decided, with its V(number), as it is written (V(line)) and what it says (V(text)).
    - If the probe decided, V(number) is V(0).
  returned: when a line decided
  type: dict
  sample: {"line": "INFO:     Application startup complete.", "number": 126, "text": "Application startup complete."}
cause:
  description:
    - The root cause of a failure. V(kind) is the sort of trouble, V(text) the whole message, V(number) and V(process) tell
      where it stands, V(hint) is a remedy, V(context) holds the lines that its process wrote until then.
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
  description: What should not have happened to the log, such as that it was replaced.
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._logs import options, outcome
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower, NotALogError
from ansible_collections.llmops.vllm.plugins.module_utils._logs.journal import Journal
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Process
from ansible_collections.llmops.vllm.plugins.module_utils._logs.probe import Probe
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.units import NothingToWatchError, Unit
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "unit": {"type": "str"},
            "mark": {"type": "dict"},
            "since": {"type": "str", "choices": ["start", "end"], "default": "start"},
            "profile": {"type": "str", "choices": ["vllm", "none"], "default": "vllm"},
            "ready": {"type": "list", "elements": "raw", "default": []},
            "failed": {"type": "list", "elements": "raw", "default": []},
            "ignore": {"type": "list", "elements": "raw", "default": []},
            "stages": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 1800},
            "stall": {"type": "int"},
            "pid": {"type": "int"},
            "pidfile": {"type": "path"},
            "probe": {
                "type": "dict",
                "options": {"url": {"type": "str", "required": True}, "api_key": {"type": "str", "no_log": True}},
            },
            "context": {"type": "int", "default": 10},
            "together": {
                "type": "dict",
                "options": {
                    "key": {"type": "str", "required": True, "no_log": False},
                    "leader": {"type": "str", "required": True},
                    "hosts": {"type": "list", "elements": "str", "required": True},
                },
            },
            "slice": {
                "type": "dict",
                "options": {
                    "seconds": {"type": "float", "required": True},
                    "elapsed": {"type": "float", "default": 0},
                    "reconnects": {"type": "int", "default": 0},
                    "state": {"type": "str", "no_log": True},
                },
            },
        },
        required_one_of=[("path", "unit")],
        mutually_exclusive=[("pid", "pidfile", "unit")],
        supports_check_mode=True,
    )
    try:
        profile = options.profile(module.params)
        module.params["mark"] = options.mark(module.params["mark"])
        if module.params["probe"]:
            options.url(module.params["probe"]["url"])
        if module.check_mode:
            module.exit_json(**would_wait(module.params))
        result, notes = wait(module.params, profile)
    except (options.OptionError, NotALogError, NothingToWatchError) as e:
        module.fail_json(msg=str(e))
    for note in notes:
        module.warn(note)
    undecided = result["verdict"] == "pending"
    (module.exit_json if undecided or result["verdict"] == "ready" else module.fail_json)(**result)


def wait(params: dict[str, Any], profile: Profile) -> tuple[dict[str, Any], list[str]]:
    part = params["slice"] or {"elapsed": 0.0, "reconnects": 0, "state": None}
    state = outcome.unpack(part["state"]) if part["state"] else {}
    mark = state.get("mark") or params["mark"]
    source: Follower | Journal
    if params["path"]:
        since = "start" if state else params["since"]  # a file that was not there when the wait began is all new
        source = Follower(params["path"], mark, since, bytes.fromhex(state.get("tail", "")))
    else:
        source = Journal(params["unit"], mark, params["since"])
    waker = Waker(params["path"] or "")
    probe = Probe(params["probe"]["url"], params["probe"]["api_key"] or "") if params["probe"] else None
    waiting = Wait(
        source,
        Judge(profile, params["context"]),
        Unit(params["unit"]) if params["unit"] else Process(params["pid"] or 0, params["pidfile"] or ""),
        waker,
        Limits(params["timeout"], params["stall"], part["elapsed"] + part["seconds"] if params["slice"] else None),
        probe=probe,
        elapsed=part["elapsed"],
    )
    if state:
        waiting.load(state)
    try:
        verdict = waiting.run()
        result = outcome.outcome(verdict, waiting, part["reconnects"])
        if params["slice"] and verdict == "pending" and (params["timeout"] or not waiting.drained):
            result["_state"] = outcome.pack(waiting.dump())
            result["_progress"] = outcome.masked(waiting.progress())
    finally:
        waker.close()
        source.close()
    return result, waiting.notes()


def would_wait(params: dict[str, Any]) -> dict[str, Any]:
    """Check mode: the shape of a result, and what it would wait for."""
    what = "a ready vLLM server" if params["profile"] == "vllm" else "the end of its process"
    if params["profile"] == "none" and params["ready"]:
        what = "a line that means success"
    where = params["path"] or f"the journal of {params['unit']}"
    how = f"wait up to {params['timeout']} s" if params["timeout"] else "look once"
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
        "msg": f"Would {how} for {what} in {where}.",
    }


if __name__ == "__main__":
    main()

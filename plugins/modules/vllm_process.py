#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_process
short_description: Start and stop a server, with systemd or without
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Starts, restarts and stops a server and all that it started, and says what runs.
  - With a O(unit), systemd runs the server. What runs is read from the process itself, not believed from the unit's file, so the file
    may name a link that is moved from one release to the next.
  - With a O(pidfile), a host without systemd runs a command as a background process that outlives the connection, in a session of its
    own, with a fresh log file for each launch. The pid file holds the start time and the boot of the process, so that a reused pid is
    never taken for it. A small keeper process stays beside it and records the exit code or the signal that ended it. Nothing starts it
    again when it dies or when the host boots.
  - Stopping ends everything in the session or in the control group of the unit, workers that a killed server left behind included, and
    whatever else was started by a launch script of the O(instance). What others left is reported, never ended.
options:
  state:
    description:
      - V(started) makes sure that exactly this command or launch script runs. Another one is stopped first. A unit is enabled.
      - V(restarted) stops what runs and starts what is wanted.
      - V(stopped) ends the server and all that it started. A unit stays enabled, as with C(systemctl stop).
      - V(rehearsed) does nothing, but fails where V(started) would before it stops anything.
    type: str
    choices: [started, stopped, restarted, rehearsed]
    default: started
  argv:
    description:
      - The command and its arguments. No shell sees them. Required unless O(state=stopped).
      - With a O(unit), whose file says how the server is started, the last of them is the launch script that must be the one that runs.
        It is known by the variable E(LLMOPS_VLLM_LAUNCH), in which a launch script names itself to its server.
    type: list
    elements: str
  pidfile:
    description:
      - Where the identity of the process is kept. Its directory is made when missing.
      - One of O(pidfile) and O(unit) is required.
    type: path
  unit:
    description: The systemd unit that runs the server, with its suffix. systemd reads its file anew if that has changed.
    type: str
  unit_text:
    description:
      - What the file of the O(unit) under C(/etc/systemd/system) has to hold. It is written before anything is stopped, and only if it
        differs. A changed file is no reason to restart.
      - Without it the file has to be there.
    type: str
  instance:
    description:
      - The directory of the instance. Processes that a launch script under it started belong to the server, whoever runs them now, and
        are ended with it.
    type: path
  log:
    description:
      - The log file of the launch. V({n}) in it stands for the number of the launch, counted up from 1, so that old logs stay.
      - Required with O(pidfile) unless O(state=stopped).
    type: path
  chdir:
    description: Working directory of the command. For a O(pidfile) only.
    type: path
    default: /
  user:
    description:
      - The user to run as, where the connection's user may change to it. The log becomes this user's.
      - A O(unit) runs as the user that its file names, so give the same. That the user may run the command is looked at first.
    type: str
  host:
    description: The address that the command will listen on.
    type: str
    default: 127.0.0.1
  port:
    description:
      - The port that the command will listen on. If a stranger holds it, the module fails before anything is stopped, and names the owner.
    type: int
  stop_timeout:
    description: Seconds from the first TERM to KILL.
    type: float
    default: 30
attributes:
  check_mode:
    support: full
    description:
      - Says whether the process would be started or stopped. What would hinder a start is only a warning, since earlier tasks may be meant
        to mend it.
  diff_mode:
    support: full
    description: Shows the running command or launch script before and after, and the file of the unit.
  idempotent:
    support: full
    description: The same command is not started twice. O(state=restarted) always restarts.
"""

EXAMPLES = r"""
- name: Start the server without systemd
  llmops.vllm.vllm_process:
    argv: [/usr/bin/python3, /opt/vllm/instances/default/current/launch.py]
    pidfile: /opt/vllm/instances/default/run/server.pid
    log: /opt/vllm/instances/default/log/server-{n}.log
    port: 8000

- name: Start it under systemd
  llmops.vllm.vllm_process:
    unit: vllm-default.service
    unit_text: "{{ lookup('ansible.builtin.template', 'vllm.service.j2') }}"
    argv: [/usr/bin/python3, /opt/vllm/instances/default/releases/3f0c2a91b7de/launch.py]
    instance: /opt/vllm/instances/default
    port: 8000

- name: See whether it could be started
  llmops.vllm.vllm_process:
    state: rehearsed
    argv: [/usr/bin/python3, /opt/vllm/instances/default/releases/3f0c2a91b7de/launch.py]
    pidfile: /opt/vllm/instances/default/run/server.pid
    log: /opt/vllm/instances/default/log/server-{n}.log
    user: vllm
    port: 8000

- name: Stop it and all that it started
  llmops.vllm.vllm_process:
    state: stopped
    pidfile: /opt/vllm/instances/default/run/server.pid
"""

RETURN = r"""
pid:
  description: The process that runs now, null if none does.
  returned: success
  type: int
launched:
  description: Whether it was started now, or in check mode would be.
  returned: success
  type: bool
started_at:
  description: When it was started, in UTC.
  returned: with O(pidfile), when running
  type: str
log:
  description: The log file of this launch.
  returned: with O(pidfile), when a launch is recorded
  type: str
mark:
  description: The place in the log where this launch begins, for M(llmops.vllm.log_wait).
  returned: with O(pidfile), when a launch is recorded
  type: dict
unit:
  description: The unit.
  returned: with O(unit)
  type: str
state:
  description: What systemd says of it.
  returned: with O(unit)
  type: str
  sample: active (running)
restarts:
  description: How often systemd has started it again since it was last started by hand.
  returned: with O(unit)
  type: int
exit:
  description: How the process that ran before ended, if that is known.
  returned: when it has ended
  type: dict
  sample: {code: null, signal: 15}
left:
  description:
    - What is on the host that no launch script of this collection started, and was not touched. Engines by their names, who listens on
      O(port), who uses the GPUs; and shared memory that nobody uses.
  returned: when something was started or stopped
  type: list
  elements: str
  sample: ["pid 4711 (VLLM::EngineCore), of alice, uses GPU 0"]
actions:
  description: What was done, in words.
  returned: success
  type: list
  elements: str
"""

import contextlib
import os
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import (
    leftovers,
    locks,
    ports,
    processes,
    refusals,
    stopping,
)
from ansible_collections.llmops.vllm.plugins.module_utils._host.kept import Kept
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import Supervisor, SupervisorError
from ansible_collections.llmops.vllm.plugins.module_utils._host.systemd import Unit


class Server:
    """The wanted state of one server, and the way to it."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, Any] = module.params
        self.supervisor: Supervisor = self.find_supervisor()
        self.launched = False

    def find_supervisor(self) -> Supervisor:
        p = self.params
        needed = [] if p["state"] == "stopped" else ["argv"] if p["unit"] else ["argv", "log"]
        missing = [name for name in needed if not p[name]]
        if missing:
            self.fail(f"{' and '.join(missing)} must be given to have a server {p['state']} by its {self.kind}.")
        if p["unit"]:
            return Unit(p["unit"], p["argv"] or [], p["user"], p["unit_text"])
        return Kept(p["pidfile"], p["argv"] or [], p["log"] or "", p["chdir"], p["user"])

    @property
    def kind(self) -> str:
        return "unit" if self.params["unit"] else "pidfile"

    def members(self) -> list[int]:
        ours = set(self.supervisor.members())
        if self.params["instance"]:
            ours.update(leftovers.of(self.params["instance"]))
        return sorted(ours)

    def ensure(self) -> bool:
        """Bring about the wanted state; True if something had to change."""
        supervisor, state = self.supervisor, self.params["state"]
        if state in ("started", "rehearsed") and supervisor.running() == supervisor.wanted:
            if state == "rehearsed" or supervisor.settled():
                return False
            if not self.module.check_mode:
                supervisor.settle()
            return True
        members, active = self.members(), supervisor.active()
        if state == "stopped" and not members and not active:
            return False
        if state != "stopped":
            self.refuse_what_cannot_run(members)
        if state == "rehearsed":
            return False
        if self.module.check_mode:
            supervisor.actions += [f"would stop {', '.join(map(str, members))}"] if members else []
            supervisor.actions += ["would start"] if state != "stopped" else []
            self.launched = state != "stopped"
            return True
        if state != "stopped":
            supervisor.settle()
        if members or active:
            self.stop(members, active)
        if state != "stopped":
            supervisor.start()
            self.launched = True
        return True

    def refuse_what_cannot_run(self, ours: list[int]) -> None:
        hindrance = self.supervisor.hindrance() or self.strangers_port(ours)
        if hindrance and self.module.check_mode:
            self.module.warn(f"As things are, it could not be started. {hindrance}")
        elif hindrance:
            self.fail(f"{hindrance} Nothing was stopped or started.")

    def strangers_port(self, ours: list[int]) -> str:
        host, port = self.params["host"], self.params["port"]
        try:
            if not port or ports.is_free(host, port):
                return ""
        except OSError as e:
            return f"{host}:{port} can't be listened on: {e}. Choose an address of this host."
        owners = ports.listeners(port)
        if owners and set(owners) <= set(ours):
            return ""
        who = " and ".join(map(processes.describe, owners)) or "a process that this user may not see"
        return (
            f"Port {port} on {host} is occupied by {who}, which this {self.kind} does not know. "
            "Stop that process or choose another port."
        )

    def stop(self, members: list[int], active: bool) -> None:
        if members and not active:
            found = ", ".join(f"pid {pid} ({processes.name(pid)})" for pid in members)
            self.module.warn(f"A server that is gone had left {found} behind. That is ended now.")
        done, survivors = stopping.stop(
            self.members, self.supervisor.ask_to_stop, self.params["stop_timeout"], self.supervisor.going
        )
        self.supervisor.actions += done
        if survivors:
            self.fail(
                f"Process {', '.join(map(str, survivors))} survived KILL: the kernel holds it (state D), "
                "mostly in a GPU driver call. Only a reboot of the host ends it."
            )

    def left(self) -> list[str]:
        strangers = leftovers.strangers(self.params["port"], self.members())
        if strangers:
            self.module.warn(f"There are servers here that this collection did not start: {'; '.join(strangers)}.")
        return strangers + leftovers.segments()

    def fail(self, msg: str) -> NoReturn:
        supervisor = getattr(self, "supervisor", None)
        self.module.fail_json(msg=msg, actions=supervisor.actions if supervisor else [])
        raise AssertionError("fail_json returned")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped", "restarted", "rehearsed"], "default": "started"},
            "argv": {"type": "list", "elements": "str"},
            "pidfile": {"type": "path"},
            "unit": {"type": "str"},
            "unit_text": {"type": "str"},
            "instance": {"type": "path"},
            "log": {"type": "path"},
            "chdir": {"type": "path", "default": "/"},
            "user": {"type": "str"},
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int"},
            "stop_timeout": {"type": "float", "default": 30},
        },
        required_one_of=[("pidfile", "unit")],
        mutually_exclusive=[("pidfile", "unit"), ("pidfile", "unit_text")],
        supports_check_mode=True,
    )
    p = module.params
    lock = f"{p['pidfile']}.lock" if p["pidfile"] else os.path.join("/run", f"{p['unit']}.lock")
    try:
        with contextlib.nullcontext() if module.check_mode or p["state"] == "rehearsed" else locks.locked(lock):
            server = Server(module)
            before, unit = server.supervisor.running(), server.supervisor.differing()
            changed = server.ensure()
            result = {
                "changed": changed,
                "launched": server.launched,
                "actions": server.supervisor.actions,
                **server.supervisor.result(),
            }
            if changed:
                after = server.supervisor.wanted if p["state"] != "stopped" else []
                result["diff"] = [{"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"}]
                if unit and p["state"] != "stopped":
                    named = {"before_header": p["unit"], "after_header": p["unit"]}
                    result["diff"].append({**named, "before": unit[0], "after": unit[1]})
                result["left"] = [] if module.check_mode else server.left()
    except SupervisorError as e:
        module.fail_json(msg=str(e))
    except OSError as e:
        module.fail_json(msg=refusals.told(e, p["pidfile"] or p["unit"]))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_process
short_description: Start and stop a server on a host without systemd
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Runs one command as a background process that outlives the connection, in a session of its own, with a fresh log file for each launch.
  - The pid file holds the start time and the boot of the process, so that a reused pid is never taken for it.
  - A small keeper process stays beside it and records the exit code or the signal that ended it.
  - Stopping ends everything in the session, workers that a killed server left behind included.
options:
  state:
    description:
      - V(started) makes sure that exactly this command runs. Another command under the same pid file is stopped first.
      - V(restarted) stops what runs and starts the command.
      - V(stopped) ends the process and all of its session.
    type: str
    choices: [started, stopped, restarted]
    default: started
  argv:
    description: The command and its arguments. No shell sees them. Required unless O(state=stopped).
    type: list
    elements: str
  pidfile:
    description: Where the identity of the process is kept. Its directory is made when missing.
    type: path
    required: true
  log:
    description:
      - The log file of the launch. V({n}) in it stands for the number of the launch, counted up from 1, so that old logs stay.
      - Required unless O(state=stopped).
    type: path
  chdir:
    description: Working directory of the command.
    type: path
    default: /
  user:
    description: The user to run as, where the connection's user may change to it. The log becomes this user's.
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
    description: Says whether the process would be started or stopped.
  diff_mode:
    support: full
    description: Shows the running command before and after.
  idempotent:
    support: full
    description: The same command is not started twice. O(state=restarted) always restarts.
"""

EXAMPLES = r"""
- name: Start the server
  llmops.vllm.vllm_process:
    argv: [/usr/bin/python3, /opt/vllm/instances/default/current/launch.py]
    pidfile: /opt/vllm/instances/default/run/server.pid
    log: /opt/vllm/instances/default/log/server-{n}.log
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
started_at:
  description: When it was started, in UTC.
  returned: when running
  type: str
log:
  description: The log file of this launch.
  returned: when a launch is recorded
  type: str
mark:
  description: The place in the log where this launch begins, for M(llmops.vllm.log_wait).
  returned: when a launch is recorded
  type: dict
exit:
  description: How the process that ran before ended, if that is known.
  returned: when it has ended
  type: dict
  sample: {code: null, signal: 15, ended_at: "2026-11-30T07:04:31.120+00:00"}
actions:
  description: What was done, in words.
  returned: success
  type: list
  elements: str
"""

import contextlib
import dataclasses
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import keeper, locks, ports, processes, stopping


class Server:
    """The process behind one pid file."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, Any] = module.params
        self.pidfile: str = self.params["pidfile"]
        self.actions: list[str] = []
        self.record = processes.read_pidfile(self.pidfile)

    def running(self) -> bool:
        return self.record is not None and processes.alive(self.record)

    def ensure(self) -> bool:
        """Bring about the wanted state; True if something had to change."""
        state = self.params["state"]
        wanted = self.params["argv"] if state != "stopped" else None
        if state == "started" and self.running() and self.record and self.record.argv == wanted:
            return False
        leftovers = processes.session_members(self.record) if self.record else []
        if state == "stopped" and not leftovers:
            return False
        if wanted:
            self.refuse_a_missing_program(wanted[0])
            if self.params["port"]:
                self.refuse_a_strangers_port(leftovers)
        if self.module.check_mode:
            self.actions += [f"would stop {', '.join(map(str, leftovers))}"] if leftovers else []
            self.actions += ["would start"] if wanted else []
            return True
        if leftovers:
            self.stop()
        if wanted:
            self.start(wanted)
        return True

    def refuse_a_missing_program(self, program: str) -> None:
        if shutil.which(program) is None:
            self.fail(f"There is no program {program} on this host. Nothing was stopped or started.")

    def refuse_a_strangers_port(self, ours: list[int]) -> None:
        host, port = self.params["host"], self.params["port"]
        try:
            if ports.is_free(host, port):
                return
        except OSError as e:
            self.fail(f"{host}:{port} can't be listened on: {e}. Choose an address of this host.")
        owners = ports.listeners(port)
        if owners and set(owners) <= set(ours):
            return
        who = [
            f"pid {pid} ({' '.join(processes.command_line(pid))[:200] or 'its command is hidden'})" for pid in owners
        ]
        self.fail(
            f"Port {port} on {host} is occupied by {' and '.join(who) or 'a process that this user may not see'}, "
            "which this pid file does not know. Nothing was stopped or started. Stop that process or choose another port.",
            owners=owners,
        )

    def stop(self) -> None:
        assert self.record
        done, survivors = stopping.stop(self.record, self.params["stop_timeout"])
        self.actions += done
        if survivors:
            self.fail(
                f"Process {', '.join(map(str, survivors))} survived KILL: the kernel holds it (state D), "
                "mostly in a GPU driver call. Only a reboot of the host ends it.",
                actions=self.actions,
            )

    def start(self, argv: list[str]) -> None:
        """Let the keeper start the command, and take its word for the new record."""
        run = os.path.dirname(self.pidfile)
        os.makedirs(run, exist_ok=True)
        script = os.path.join(run, "keeper.py")
        self.lay_down_the_keeper(script)
        log = self.fresh_log()
        request = {"argv": argv, "log": log, "chdir": self.params["chdir"], "user": self.params["user"]}
        with subprocess.Popen(
            [sys.executable, script, self.pidfile],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        ) as process:
            assert process.stdin and process.stdout and process.stderr
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
            answer = process.stdout.readline()
            # The keeper lives on, so leaving the block must not wait for it.
            process.returncode = 0 if answer else process.wait()
            result = json.loads(answer) if answer else {"error": process.stderr.read().decode(errors="replace").strip()}
        if "error" in result:
            self.fail(f"{argv[0]} was not started: {result['error']}", actions=self.actions)
        self.record = processes.PidFile(**result)
        self.actions.append(f"started {self.record.pid}")

    def lay_down_the_keeper(self, script: str) -> None:
        """The keeper has to be a file, since the module's own code is gone when the module ends."""
        temporary = f"{script}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as f:
            f.write(inspect.getsource(keeper))
        os.replace(temporary, script)

    def fresh_log(self) -> str:
        """The path of the log with the number after the highest that is there."""
        path: str = self.params["log"]
        directory, name = os.path.split(path)
        os.makedirs(directory, exist_ok=True)
        before, placeholder, after = name.partition("{n}")
        if not placeholder:
            return path
        numbers = [
            int(n[len(before) : len(n) - len(after)])
            for n in os.listdir(directory)
            if n.startswith(before) and n.endswith(after) and n[len(before) : len(n) - len(after)].isdigit()
        ]
        return os.path.join(directory, f"{before}{max(numbers, default=0) + 1}{after}")

    def ended(self) -> processes.Exit | None:
        """How the recorded process ended. Its keeper needs a moment to write that down."""
        if not self.record or self.running():
            return None
        deadline = time.monotonic() + 1
        end = processes.read_exit(self.pidfile, self.record)
        while end is None and self.actions and time.monotonic() < deadline:
            time.sleep(stopping.POLL)
            end = processes.read_exit(self.pidfile, self.record)
        return end

    def fail(self, msg: str, **facts: Any) -> NoReturn:
        self.module.fail_json(msg=msg, **facts)
        raise AssertionError("fail_json returned")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped", "restarted"], "default": "started"},
            "argv": {"type": "list", "elements": "str"},
            "pidfile": {"type": "path", "required": True},
            "log": {"type": "path"},
            "chdir": {"type": "path", "default": "/"},
            "user": {"type": "str"},
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int"},
            "stop_timeout": {"type": "float", "default": 30},
        },
        required_if=[("state", "started", ("argv", "log")), ("state", "restarted", ("argv", "log"))],
        supports_check_mode=True,
    )
    with contextlib.nullcontext() if module.check_mode else locks.locked(module.params["pidfile"] + ".lock"):
        server = Server(module)
        before = server.record.argv if server.record and server.running() else []
        changed = server.ensure()
        record = server.record
        after = module.params["argv"] or [] if module.params["state"] != "stopped" else []
        result: dict[str, Any] = {"changed": changed, "actions": server.actions, "pid": None}
        if record:
            result.update(log=record.log, mark=record.mark)
            if server.running():
                result.update(pid=record.pid, started_at=record.started_at)
            end = server.ended()
            result.update(exit=dataclasses.asdict(end)) if end else None
        if changed:
            result["diff"] = {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"}
    module.exit_json(**result)


if __name__ == "__main__":
    main()

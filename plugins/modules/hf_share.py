#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_share
short_description: Serve a snapshot to the other hosts of a site for a while
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Starts a small web server on a host that has a snapshot of M(llmops.vllm.hf_snapshot), from which others take it as their C(source). It
    gives the files of that snapshot only, to whoever has the O(token), and ends by itself when nobody has asked for a while.
  - The files are not encrypted on their way. That none was changed is known by the C(digest), which the others get by another way.
options:
  path:
    description: The directory of the snapshot, as RV(llmops.vllm.hf_snapshot#module:path) tells it.
    type: path
    required: true
  state:
    description: Whether it is served. V(started) ends a server that is left of an earlier run, whose token nobody knows.
    type: str
    choices: [started, stopped]
    default: started
  address:
    description: The address of this host that it is served at, and that the others reach it by. Required with V(state=started).
    type: str
  port:
    description: The port. V(0) takes any that is free.
    type: int
    default: 0
  token:
    description: What the others have to show. Make a new one each time. Required with V(state=started).
    type: str
  at_once:
    description: How many are served at a time. The others wait.
    type: int
    default: 4
  idle:
    description: Seconds without a request after which the server ends.
    type: int
    default: 300
  user:
    description: The user that it runs as.
    type: str
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
    details:
      - Nothing that lasts is changed, so nothing is reported as changed either.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
"""

EXAMPLES = r"""
- name: Let the others take it from here
  llmops.vllm.hf_share:
    path: "{{ snapshot.path }}"
    address: 192.0.2.11
    token: "{{ one_time_token }}"
    user: vllm

- name: Stop serving it
  llmops.vllm.hf_share:
    path: "{{ snapshot.path }}"
    state: stopped
"""

RETURN = r"""
url:
  description: The C(source) for the others.
  returned: when it was started
  type: str
  sample: http://192.0.2.11:40123
log:
  description: The log of the server.
  returned: when it was started
  type: str
"""

import json
import os
import pwd
import signal
import sys
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks, processes, refusals, stopping
from ansible_collections.llmops.vllm.plugins.module_utils._host.kept import Kept
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import SupervisorError
from ansible_collections.llmops.vllm.plugins.module_utils._models import package, serving, snapshot

PATIENCE = 20.0  # seconds until it listens
POLL = 0.05


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "address": {"type": "str"},
            "port": {"type": "int", "default": 0},
            "token": {"type": "str", "no_log": True},
            "at_once": {"type": "int", "default": 4},
            "idle": {"type": "int", "default": 300},
            "user": {"type": "str"},
        },
        required_if=[("state", "started", ("address", "token"))],
        supports_check_mode=True,
    )
    p = module.params
    path = p["path"].rstrip("/")
    job = snapshot.job_of(path)
    pidfile = os.path.join(job, "serve.pid")
    result: dict[str, Any] = {"changed": False}
    if module.check_mode or (p["state"] == "stopped" and not os.path.exists(pidfile)):
        module.exit_json(**result)
    if p["state"] == "started" and snapshot.read(path) is None:
        module.fail_json(msg=f"There is no snapshot at {path} to serve. Fetch it by hf_snapshot first.")
    try:
        with locks.locked(f"{pidfile}.lock"):
            script = os.path.join(job, "serve.pyz")
            server = Kept(pidfile, [sys.executable, script, job], os.path.join(job, "serve-{n}.log"), user=p["user"])
            if server.active():
                stopping.stop(server.members, server.ask_to_stop, 10)
            if p["state"] == "started":
                result.update(start(module, server, job))
    except (SupervisorError, KeyError) as e:
        module.fail_json(msg=str(e))
    except OSError as e:
        module.fail_json(msg=refusals.told(e, job))
    module.exit_json(**result)


def start(module: AnsibleModule, server: Kept, job: str) -> dict[str, Any]:
    p = module.params
    user = pwd.getpwnam(p["user"]) if p["user"] else None
    owner = (user.pw_uid, user.pw_gid) if user and user.pw_uid != os.geteuid() else None
    offer = {name: p[name] for name in ("path", "address", "port", "token", "at_once", "idle")}
    if owner:
        files.give(job, owner)
    files.write(os.path.join(job, "serve.pyz"), package.archive(serving), mode=0o644, owner=owner)
    files.write(os.path.join(job, "offer.json"), json.dumps(offer).encode(), mode=0o600, owner=owner)
    told = os.path.join(job, "serve.json")
    if os.path.exists(told):
        os.unlink(told)
    server.start()
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(told):
        if not server.active() or time.monotonic() > deadline:
            stopping.send(signal.SIGKILL, processes.session_members(server.started), "sent KILL to")
            said = processes.read_log(server.started) or ["FAILED: it said nothing."]
            module.fail_json(
                msg=f"The snapshot can't be served: {said[-1].replace('FAILED: ', '', 1)} "
                "Name an address of this host by vllm_models_share_address."
            )
        time.sleep(POLL)
    address = f"[{p['address']}]" if ":" in p["address"] else p["address"]
    return {"url": f"http://{address}:{files.read_json(told)['port']}", "log": server.started.log}


if __name__ == "__main__":
    main()

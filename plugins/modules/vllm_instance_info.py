#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_instance_info
short_description: Tell what runs of an instance, and whether it answers
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Tells which release is the current one, which one runs, since when, how often it was started again, and what was measured of it.
  - With O(generate), asks the server for its model and for one token, and fails if this very server does not give it. An answer of
    any other process that holds the port is not taken for one.
  - Of several hosts that run one server only the head, which has rank 0, can be asked. The others are headless.
options:
  instance:
    description: The directory of the instance.
    type: path
    required: true
  unit:
    description: The systemd unit that runs the server. One of O(unit) and O(pidfile) is required.
    type: str
  pidfile:
    description: The pid file of M(llmops.vllm.vllm_process).
    type: path
  release:
    description: The release that has to run. If another one does, the module fails.
    type: str
  generate:
    description: Whether to ask for one token.
    type: bool
    default: false
  api_key:
    description: The key that the server wants.
    type: str
  timeout:
    description: Seconds in which the token must come.
    type: float
    default: 60
extends_documentation_fragment:
  - llmops.vllm.read_only
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing. In check mode it does not generate.
"""

EXAMPLES = r"""
- name: What runs here?
  llmops.vllm.vllm_instance_info:
    instance: /opt/vllm/instances/default
    unit: vllm-default.service

- name: Does it answer?
  llmops.vllm.vllm_instance_info:
    instance: /opt/vllm/instances/default
    pidfile: /opt/vllm/instances/default/run/server.pid
    generate: true
"""

RETURN = r"""
current:
  description:
    - The release that is the current one, as its C(release.json) tells. Empty if there is none.
    - Where several hosts run one server it holds C(deployment) with C(name), C(rank), C(hosts) (by rank) and C(executor).
  returned: always
  type: dict
proven:
  description: Whether the current release was measured since its last launch by a play, and passed.
  returned: always
  type: bool
previous:
  description: The id of the last release that passed before the current one, null if there is none.
  returned: always
  type: str
running:
  description: The id of the release that runs, null if none does.
  returned: always
  type: str
state:
  description: V(running), V(stopped), or what systemd says of the unit.
  returned: always
  type: str
  sample: active (running)
uptime:
  description: Seconds since the running server was started.
  returned: when running
  type: int
restarts:
  description: How often systemd has started it again; null without systemd, which is the only one that does.
  returned: always
  type: int
acceptance_length:
  description: What was measured of the current release, null if nothing was.
  returned: always
  type: float
models:
  description: The names of the models that it serves.
  returned: with O(generate)
  type: list
  elements: str
pid:
  description: The server's process, null if there is none.
  returned: always
  type: int
"""

import os
import time
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import NoAnswerError, Server
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, ports, processes, release
from ansible_collections.llmops.vllm.plugins.module_utils._host.kept import Kept
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import Supervisor, SupervisorError
from ansible_collections.llmops.vllm.plugins.module_utils._host.systemd import Unit


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "unit": {"type": "str"},
            "pidfile": {"type": "path"},
            "release": {"type": "str"},
            "generate": {"type": "bool", "default": False},
            "api_key": {"type": "str", "no_log": True},
            "timeout": {"type": "float", "default": 60},
        },
        required_one_of=[("unit", "pidfile")],
        mutually_exclusive=[("unit", "pidfile")],
        supports_check_mode=True,
    )
    p = module.params
    try:
        supervisor: Supervisor = Unit(p["unit"], []) if p["unit"] else Kept(p["pidfile"], [])
        found = look(p["instance"], supervisor)
    except SupervisorError as e:
        module.fail_json(msg=str(e))
    if p["release"] and found["running"] not in (None, p["release"]) and not module.check_mode:
        module.fail_json(
            msg=f"What runs is {found['running']} and not {p['release']}: another run, or a person, works on this instance. "
            "See to it that one does, and run this again.",
            **found,
        )
    if p["generate"] and not module.check_mode:
        try:
            found["models"] = ask(found, supervisor.members(), p["api_key"], p["timeout"])
        except NoAnswerError as e:
            module.fail_json(msg=f"{e.cause}. {e.evidence}. {e.remedy}.", **found)
    module.exit_json(changed=False, **found)


def look(instance: str, supervisor: Supervisor) -> dict[str, Any]:
    current, proven, measured = release.current(instance)
    running, told = supervisor.running(), supervisor.result()
    found = {
        "current": current,
        "proven": proven,
        "previous": files.read_json(os.path.join(instance, "previous", "release.json")).get("id"),
        "running": os.path.basename(os.path.dirname(running[-1])) if running else None,
        "state": told.get("state") or ("running" if running else "stopped"),
        "restarts": told.get("restarts"),
        "acceptance_length": measured.get("acceptance_length"),
        "pid": told["pid"],
    }
    uptime = processes.uptime(told["pid"]) if told["pid"] else None
    return found if uptime is None else {**found, "uptime": round(uptime)}


def ask(found: dict[str, Any], members: list[int], api_key: str | None, timeout: float) -> list[str]:
    """The models of the server, once it has given a token."""
    url = found["current"].get("url", "")
    place = found["current"].get("deployment") or {}
    if place.get("rank"):
        raise NoAnswerError(
            "This host gives no token",
            f"It has rank {place['rank']} in the deployment {place['name']} and is headless, so nothing listens here",
            f"Ask the head, which is {place['hosts'][0]}",
        )
    deadline = time.monotonic() + timeout
    try:
        server = Server(url, api_key)
    except ValueError as e:
        raise NoAnswerError("There is no address to ask", str(e), "Serve a release first") from None
    listeners = ports.listeners(urlsplit(url).port or 80)
    if listeners and not set(listeners) & set(members):
        raise NoAnswerError(
            f"Another server answers at {url}",
            f"The port is held by {' and '.join(map(processes.describe, listeners))}",
            "Stop that process or choose another port",
        )
    models = [model.name for model in server.models(deadline)]
    body = {"model": models[0], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}
    if server.generate(body, deadline).tokens < 1:
        raise NoAnswerError(
            "The server answers, but generates nothing",
            f"/v1/chat/completions of {models[0]} gave no token",
            "Read the server's log",
        )
    return models


if __name__ == "__main__":
    main()

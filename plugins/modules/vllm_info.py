#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_info
short_description: Find the vLLM servers of a host, however they were started
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Finds every API server among the processes of the host, those in containers included, and tells how it was started, by whom, with
    which arguments, and what keeps it. It needs no tool of any container runtime.
  - Secrets in arguments and environments are masked.
  - It looks, and changes nothing. What the connection's user may not see is told in C(hidden), so use C(become) to see all.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing.
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
  - module: llmops.vllm.vllm_doctor
  - module: llmops.vllm.vllm_instance_info
"""

EXAMPLES = r"""
- name: What serves here?
  llmops.vllm.vllm_info:
  become: true
  register: found

- name: Show the models
  ansible.builtin.debug:
    msg: "{{ found.servers | map(attribute='model') | join(', ') }}"
"""

RETURN = r"""
servers:
  description: The servers, by pid.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The process of the API server.
      type: int
    argv:
      description: Its command line.
      type: list
      elements: str
    model:
      description: The target, as it was named to the server.
      type: str
    flags:
      description: The arguments by their long names.
      type: dict
    environment:
      description: Those variables that steer vLLM and its libraries. Null where they may not be read.
      type: dict
    cwd:
      description: Its working directory.
      type: str
    user:
      description: Whose process it is.
      type: str
    uptime:
      description: Seconds since it was started.
      type: int
    parent:
      description: The process that started it.
      type: str
    keeper:
      description: What keeps it, a systemd unit, a container, tmux, nohup, or nothing.
      type: str
    unit:
      description: The systemd unit that it runs in, empty without one.
      type: str
    log:
      description: The file that it writes its output to, or what else is there.
      type: str
    listens:
      description: The TCP ports that the process listens on.
      type: list
      elements: int
    host:
      description: The address that it was told to listen on.
      type: str
    port:
      description: The port of its API.
      type: int
    python:
      description: The Python that runs it.
      type: str
    workers:
      description: Its other processes, by pid, with their names.
      type: dict
    hidden:
      description: What this user may not see of it.
      type: list
      elements: str
orphans:
  description: Engines and workers whose server is gone, in words.
  returned: always
  type: list
  elements: str
  sample: ["pid 4711 (VLLM::EngineCore), of alice"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import servers


def main() -> None:
<<<<<<< HEAD
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found, orphans = servers.find()
    module.exit_json(changed=False, servers=[server.public() for server in found], orphans=orphans)
=======
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "unit": {"type": "str"},
            "pidfile": {"type": "path"},
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
>>>>>>> rollout


if __name__ == "__main__":
    main()

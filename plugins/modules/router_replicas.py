#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_replicas
short_description: Say which replicas a router hands requests to
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Writes the configuration of an nginx that stands before several servers of one model, and drains and undrains them. The role
    P(llmops.vllm.vllm_router#role) uses it. Each replica is a file of one C(server) line in C(replicas) of O(directory).
  - What nginx refuses is not written. A running nginx is told to work by what is written, and no worker takes a request by the
    configuration before when the module returns. If it doesn't follow all is put back as it was. It is not started here.
  - Refused where a user other than root and the one who runs this can change the files.
  - Runs that meet on one router take turns, so that two that drain at the same time see each other.
options:
  directory:
    description: The directory of the router, with C(replicas) and C(run) in it, which O(replicas) makes.
    type: path
    required: true
  program:
    description: The nginx that runs it.
    type: path
    default: /usr/sbin/nginx
  config:
    description:
      - The text of C(nginx.conf). It has to C(include replicas/*.conf), and to name C(run/nginx.pid) in O(directory) as its pid file.
    type: str
  replicas:
    description: The address of each replica, as C(host:port), by its name. Others are forgotten. One that is drained stays drained.
    type: dict
  drain:
    description:
      - The replica that is to get no new requests. Waits until nginx has finished all that it had taken before.
      - Refused if no other replica is left that is in service and says at C(/health) that it is well, and if the router doesn't know it.
    type: str
  undrain:
    description: The replica that is to get requests again. The router has to know it, and it to say at C(/health), asked from here, that it is well.
    type: str
  address:
    description: Where the inventory has it that is drained or undrained, as C(host:port). Refused if that is not where the router reaches it.
    type: str
  timeout:
    description: Seconds in which nginx has to have finished what it had taken. Requests to other replicas are among it, as its workers have all of them.
    type: float
    default: 600
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - Nobody is asked whether all is well, and nginx isn't asked whether it takes the configuration.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
"""

EXAMPLES = r"""
- name: Take gpu1 out of service
  llmops.vllm.router_replicas:
    directory: /opt/vllm/router
    drain: gpu1
  delegate_to: router1

- name: Bring it back
  llmops.vllm.router_replicas:
    directory: /opt/vllm/router
    undrain: gpu1
  delegate_to: router1
"""

RETURN = r"""
replicas:
  description: What the router knows of each replica, by its name, C(address) and whether it is C(drained).
  returned: success
  type: dict
  sample: {"gpu1": {"address": "192.0.2.11:8000", "drained": false}}
running:
  description: Whether nginx runs.
  returned: success
  type: bool
"""

import contextlib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, refusals
from ansible_collections.llmops.vllm.plugins.module_utils._router import nginx, replicas
from ansible_collections.llmops.vllm.plugins.module_utils._router.replicas import Replicas, RouterError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "program": {"type": "path", "default": "/usr/sbin/nginx"},
            "config": {"type": "str"},
            "replicas": {"type": "dict"},
            "drain": {"type": "str"},
            "undrain": {"type": "str"},
            "address": {"type": "str"},
            "timeout": {"type": "float", "default": 600},
        },
        required_one_of=[("replicas", "drain", "undrain")],
        mutually_exclusive=[("replicas", "drain", "undrain")],
        required_together=[("config", "replicas")],
        supports_check_mode=True,
    )
    p = module.params
    router = nginx.Nginx(p["directory"], p["program"])
    try:
        router.refuse_others()
        if p["replicas"] is not None and not module.check_mode:
            router.make()
        with files.sole_writer(router.directory) if os.path.isdir(router.directory) else contextlib.nullcontext():
            result, left = change(module, router)
        # Others may have their turn while this one waits.
        if p["drain"]:
            await_the_end(left, p["drain"], p["timeout"])
        running = router.master() is not None
    except RouterError as e:
        module.fail_json(msg=str(e))
    except OSError as e:
        module.fail_json(msg=f"The router could not be changed. {refusals.told(e, router.directory)}")
    module.exit_json(**result, running=running)


def change(module: AnsibleModule, router: nginx.Nginx) -> tuple[dict[str, Any], set[nginx.Worker]]:
    """What came of it, and the workers that have yet to finish what they took before."""
    p = module.params
    config, known = router.read()
    if p["replicas"] is not None:
        text, wanted = p["config"], replicas.wanted(p["replicas"], known)
    else:
        name = p["drain"] or p["undrain"]
        text, wanted = config, replicas.turned(name, bool(p["drain"]), known)
        stale = replicas.stale(name, p["address"], known)
        if stale:
            told = f"The router in {router.directory} {stale}. Run router.yml first, or mend its vllm_router_directory or vllm_router_replicas."
            if not module.check_mode:
                raise RouterError(told)
            module.warn(told)
    before, after = _told(config, known), _told(text, wanted)
    left = set()
    if not module.check_mode:
        ask(p, known)
        left = router.change(text, wanted)
    return {"changed": before != after, **_result(wanted), "diff": {"before": before, "after": after}}, left


def ask(p: dict[str, Any], known: Replicas) -> None:
    """Those whom it depends on."""
    if p["drain"]:
        replicas.refuse_to_drain_the_last(p["drain"], known)
    elif p["undrain"]:
        address = next(each.address for each in known if each.name == p["undrain"])
        said = replicas.silence(address)
        if said:
            raise RouterError(
                f"{p['undrain']} stays out of service: from this router http://{address}/health gives no good answer "
                f"({said}). Have its server listen at an address that the router reaches (vllm_serve_host), open its port to "
                "the router, or say where it is reached by vllm_router_address."
            )


def await_the_end(left: set[nginx.Worker], name: str, timeout: float) -> None:
    busy = nginx.still(left, timeout)
    if busy:
        raise RouterError(
            f"{name} gets no new requests, but the router has not finished those that it took before, after {timeout:g} s: "
            f"nginx's pid {', '.join(str(pid) for pid, _ticks in sorted(busy))} still answers some. Wait longer, by "
            "vllm_router_drain_timeout, or end the requests that take so long."
        )


def _result(known: Replicas) -> dict[str, Any]:
    return {"replicas": {each.name: {"address": each.address, "drained": each.drained} for each in known}}


def _told(config: str, known: Replicas) -> str:
    return config + "".join(each.text for each in known)


if __name__ == "__main__":
    main()

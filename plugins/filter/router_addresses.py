# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: router_addresses
short_description: Where a router reaches each replica
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Tells of each of these hosts the address at which a router reaches its server, by what the inventory says of it. That is
    C(vllm_serve_host) where it is one address, and where it is C(0.0.0.0) or C(::) the address that Ansible uses. C(vllm_router_address)
    of a replica goes before that.
  - Of several hosts that run one server, by C(vllm_deployment), the head alone takes requests. The others have no address, and are left out.
  - A server that listens on loopback only is refused, unless the router is the same host.
positional: hostvars, router
options:
  _input:
    description: The names of the replicas.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts.
    type: dict
    required: true
  router:
    description: The name of the router.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where the replicas are
  ansible.builtin.debug:
    msg: "{{ groups['vllm'] | llmops.vllm.router_addresses(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: By replica its address as C(host:port).
  type: dict
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

HOST = "127.0.0.1"
PORT = 8000
"""The defaults of vllm_serve, as the variables of another host hold no defaults of roles. A test holds them against each other."""


def router_addresses(names: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], router: str) -> dict[str, str]:
    return {
        name: _address(name, hostvars[name], _place(hostvars[router], router))
        for name in names
        if not _follows(name, hostvars[name])
    }


def _follows(name: str, given: Mapping[str, Any]) -> bool:
    """As vllm_router_follows has it."""
    deployment = given.get("vllm_deployment")
    if not deployment:
        return False
    head = given.get("vllm_deployment_head") or (given["groups"].get(deployment) or [name])[0]
    return bool(head != name)


def _address(name: str, given: Mapping[str, Any], router: str) -> str:
    host = given.get("vllm_router_address") or given.get("vllm_serve_host", HOST)
    place = _place(given, name)
    if _is(host, "is_unspecified"):
        host = HOST if place == router else place
    if (host == "localhost" or _is(host, "is_loopback")) and place != router:
        raise AnsibleFilterError(
            f"The server of {name} listens on {host} only, where no router of another host reaches it. Set vllm_serve_host there to "
            "an address that the router reaches, as '{{ ansible_host }}', and a vllm_serve_api_key."
        )
    return (
        f"[{host}]:{given.get('vllm_serve_port', PORT)}"
        if ":" in host
        else f"{host}:{given.get('vllm_serve_port', PORT)}"
    )


def _place(given: Mapping[str, Any], name: str) -> str:
    return str(given.get("ansible_host") or name)


def _is(host: str, what: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host), what))
    except ValueError:
        return False


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"router_addresses": router_addresses}

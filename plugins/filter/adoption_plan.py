# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: adoption_plan
short_description: What would be another with a server when it was adopted
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Says what is pinned, what site.yml would change, and what is left to a person, a paragraph for each.
options:
  _input:
    description: One of the C(servers) that M(llmops.vllm.vllm_doctor) returns.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what would change
  ansible.builtin.debug:
    msg: "{{ doctor.servers[0] | llmops.vllm.adoption_plan }}"
"""

RETURN = r"""
_value:
  description: The plan, as lines of text.
  type: str
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import masking
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK

SOURCES = {
    "index": "an index",
    "wheel": "a wheel file",
    "source": "a source tree",
    "editable": "a source tree that it runs from",
}
SNAPSHOT = re.compile(r"/models--(.+?)--(.+?)/snapshots/([0-9a-f]{40})$")


def adoption_plan(server: Mapping[str, Any]) -> str:
    # A name may have breaks of lines in it, and a line is to stay one, as it may become a comment.
    return "\n".join(" ".join(line.splitlines()) for line in (*_pins(server), *_changes(server), *_left(server)))


def _pins(server: Mapping[str, Any]) -> Iterator[str]:
    yield f"Seen as pid {server['pid']} of {server['user']}, kept by {server['keeper']}; vLLM {server.get('version') or 'of an unknown version'}."
    build = server.get("build") or {}
    if build.get("method"):
        commit = f" at commit {build['commit']}" if build.get("commit") else ""
        yield f"The build: {build['version']}, installed from {SOURCES.get(build['method'], build['method'])}{commit}."
    for what in ("target", "drafter"):
        digest = (server.get("digests") or {}).get(what)
        match = SNAPSHOT.search(server.get(what) or "")
        revision = f", {match[1]}/{match[2]} at {match[3]}" if match else ""
        yield f"The {what}: {server.get(what)}{revision}" + (f"; config.json sha256:{digest}." if digest else ".")


def _changes(server: Mapping[str, Any]) -> Iterator[str]:
    yield "site.yml would:"
    for finding in server["findings"]:
        if finding["check"] == "drafter" and finding["severity"] == "error":
            yield f"- serve the drafter from a copy with a mended config.json: {finding['what']}"
    yield "- start the server under systemd where that runs the host, and by itself elsewhere, and measure it."


def _left(server: Mapping[str, Any]) -> Iterator[str]:
    yield "Left to you:"
    unit = server.get("unit")
    stop = f"systemctl disable --now {unit}" if unit else f"kill {server['pid']}"
    yield f"- end the server that is there first, as it holds port {server['port']} and the GPUs: {stop}"
    told = {**(server.get("environment") or {}), **{f"--{name}": value for name, value in server["flags"].items()}}
    for name in masking.having(told, (MASK,)):
        yield f"- put {name} into {_place(name)} by a vault: secrets are not written here"
    for name in masking.having(told, masking.TEMPLATE):
        yield f"- put {name} into {_place(name)} as !unsafe once you have looked at it: Ansible would take it for a template"
    if server.get("environment") is None:
        yield "- look at its environment, which could not be read"


def _place(name: str) -> str:
    """The variable that a masked variable or flag belongs into."""
    if name in ("VLLM_API_KEY", "--api-key"):
        return "vllm_serve_api_key"
    if name.startswith("--speculative-config"):
        return "vllm_serve_speculative"
    return "vllm_serve_args" if name.startswith("--") and name != "--hf-token" else "vllm_serve_env"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"adoption_plan": adoption_plan}

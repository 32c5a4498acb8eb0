# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: doctor_table
short_description: What the doctor found, to read
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - A line for each server, the sick first; of more than eight that are well only the names. Below that what is wrong, the worst first, each
    with the servers that have it, and last how many hosts are well and how many are not.
options:
  _input:
    description: By the names of the hosts, what M(llmops.vllm.vllm_doctor) returned of each, or nothing for one that was not reached.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ {'gpu1': doctor} | llmops.vllm.doctor_table }}"
"""

RETURN = r"""
_value:
  description: The table, as lines of text.
  type: str
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words

COLUMNS = ("host", "model", "port", "kept by", "vLLM", "drafter", "acceptance", "health")
SEVERITIES = ("error", "warning", "note")
HEALTH = ("error", "not reached", "warning", "ok")
WIDTH = 120
FEW = 8
"""So many servers that are well have a line each, and so many that share a fault are named."""


def doctor_table(hosts: Mapping[str, Mapping[str, Any] | None]) -> str:
    found = sorted(
        (row for name, told in hosts.items() for row in _rows(name, told)), key=lambda row: HEALTH.index(row[-1])
    )
    well = [row for row in found if row[-1] == "ok"]
    rows = [COLUMNS, *(found if len(well) <= FEW else found[: -len(well)])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    short = words.named(hosts)
    if len(well) > FEW:
        several = Counter(row[0] for row in found)
        names = (short[row[0]] + (f":{row[2]}" if several[row[0]] > 1 else "") for row in well)
        table += ["", *_folded("ok      ", ", ".join(names))]
    return "\n".join([*table, *_findings(hosts, short), "", _counted(hosts)])


def _counted(hosts: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Said last, where it is read first: how many hosts are well, each by its worst."""
    counts = Counter(told["health"] if told and "servers" in told else "not reached" for told in hosts.values())
    return f"{words.hosts(len(hosts))}: " + ", ".join(
        f"{counts[health]} {health}" for health in HEALTH if counts[health]
    )


def _rows(name: str, told: Mapping[str, Any] | None) -> Iterator[tuple[str, ...]]:
    if not told or "servers" not in told:
        yield (name, *("-" * (len(COLUMNS) - 2)), "not reached")
        return
    for server in told["servers"]:
        yield (
            name,
            name_of(server),
            str(server["port"]),
            server["keeper"].partition(":")[0],
            server.get("version") or "-",
            _last(server.get("drafter") or ""),
            _acceptance(server),
            server["health"],
        )
    if not told["servers"]:
        yield (name, "no server", *("-" * (len(COLUMNS) - 3)), told["health"])


def _acceptance(server: Mapping[str, Any]) -> str:
    """Since its start, and as a probe measured it."""
    probed = (server.get("probe") or {}).get("acceptance_length")
    since = words.number(server.get("acceptance_length"), 2)
    return since if probed is None else f"{since}, now {probed:.2f}"


def name_of(server: Mapping[str, Any]) -> str:
    """As its clients know it."""
    served = server["flags"].get("served-model-name")
    if isinstance(served, list):
        served = next(iter(served), None)
    return str(served or _last(server["model"]))


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or "-"


def _findings(hosts: Mapping[str, Mapping[str, Any] | None], short: Mapping[str, str]) -> Iterator[str]:
    """Each once: what differs between two servers that have the same fault is only where it was seen."""
    having: dict[tuple[str, str, str], list[str]] = {}
    evidence: dict[tuple[str, str, str], str] = {}
    for name, told in hosts.items():
        for who, finding in told_of(short[name], told or {}):
            key = (finding["severity"], finding["what"], finding["remedy"])
            having.setdefault(key, []).append(who)
            evidence.setdefault(key, finding["evidence"])
    for key in sorted(having, key=lambda key: (SEVERITIES.index(key[0]), -len(having[key]))):
        severity, what, remedy = key
        yield ""
        more = f" and {len(having[key]) - FEW} more" if len(having[key]) > FEW else ""
        yield from _folded(f"{severity:8}", f"{', '.join(having[key][:FEW])}{more}: {what}")
        if severity != "note":
            yield from _folded("  seen  ", evidence[key])
        yield from _folded("  do    ", remedy)


def told_of(name: str, told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The findings on a host, each with whose it is: the host's, or a server's that is told by its port where there are several."""
    servers = told.get("servers") or []
    for finding in told.get("findings") or []:
        yield name, finding
    for server in servers:
        for finding in server["findings"]:
            yield name if len(servers) == 1 else f"{name}:{server['port']}", finding


def _folded(title: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=title,
        subsequent_indent=" " * len(title),
        break_long_words=False,
        break_on_hyphens=False,
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"doctor_table": doctor_table}

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: status_table
short_description: What runs where, as a table
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Puts what M(llmops.vllm.vllm_instance_info) returned for several hosts into one table.
  - Where several hosts run one server, it tells the rank of each, and of one that runs which others it would need and that don't.
options:
  _input:
    description: What was returned, by the name of the host. A host of which nothing is known is given null.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: What runs where
  ansible.builtin.debug:
    msg: "{{ {'gpu1': info, 'gpu2': none} | llmops.vllm.status_table }}"
"""

RETURN = r"""
_value:
  description: The table, as lines of text.
  type: str
"""

from collections.abc import Mapping
from typing import Any, Callable

COLUMNS = ("host", "release", "commit", "state", "uptime", "restarts", "acceptance", "port")
RANK = "rank"
"""A column of its own after the host's, if any host has one."""
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def status_table(hosts: Mapping[str, Mapping[str, Any] | None]) -> str:
    ranked = any(map(_deployment, hosts.values()))
    titles: tuple[str, ...] = (COLUMNS[0], RANK, *COLUMNS[1:]) if ranked else COLUMNS
    rows = [titles]
    for name, info in hosts.items():
        host, *cells = _row(name, info, hosts)
        rows.append((host, *([_rank(info)] if ranked else []), *cells))
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _row(name: str, info: Mapping[str, Any] | None, hosts: Mapping[str, Mapping[str, Any] | None]) -> tuple[str, ...]:
    if not info:
        return (name, "-", "-", "not reached", "-", "-", "-", "-")
    current = info.get("current") or {}
    build = current.get("build") or {}
    release, running = current.get("id"), info.get("running")
    if running and running != release:
        release = f"{running}, not {release}"
    acceptance, restarts = info.get("acceptance_length"), info.get("restarts")
    without = ", ".join(_without(info, hosts)) if running else ""
    return (
        name,
        release or "none",
        (build.get("commit") or "")[:9] or build.get("version") or "-",
        f"{info.get('state')}, without {without}" if without else str(info.get("state")),
        span(info.get("uptime")),
        "-" if restarts is None else str(restarts),
        "-" if acceptance is None else f"{acceptance:.2f}",
        str(current.get("url") or "").rpartition(":")[2] or "-",
    )


def _deployment(info: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a host is a part of; empty for one that runs a server of its own."""
    return ((info or {}).get("current") or {}).get("deployment") or {}


def _rank(info: Mapping[str, Any] | None) -> str:
    place = _deployment(info)
    return f"{place['rank']} of {len(place['hosts'])}" if place else "-"


def _without(info: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """The hosts that this one needs, as the head needs all others and the others need the head, and that don't run with it.

    Of a host that was not looked at nothing is known.
    """
    place = _deployment(info)
    needed = list(place.get("hosts") or [])
    needed = needed[:1] if place.get("rank") else needed[1:]
    return [host for host in needed if host in hosts and not _runs(hosts[host], place)]


def _runs(info: Mapping[str, Any] | None, place: Mapping[str, Any]) -> bool:
    other = _deployment(info)
    return bool(info and info.get("running")) and (other.get("name"), other.get("hosts")) == (
        place.get("name"),
        place.get("hosts"),
    )


def span(seconds: int | None) -> str:
    """A time in its two greatest units: 3d 4h, 2m 7s."""
    if seconds is None:
        return "-"
    parts: list[str] = []
    for size, unit in UNITS:
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"status_table": status_table}

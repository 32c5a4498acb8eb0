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
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def status_table(hosts: Mapping[str, Mapping[str, Any] | None]) -> str:
    rows = [COLUMNS, *(_row(name, info) for name, info in hosts.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _row(name: str, info: Mapping[str, Any] | None) -> tuple[str, ...]:
    if not info:
        return (name, "-", "-", "not reached", "-", "-", "-", "-")
    current = info.get("current") or {}
    build = current.get("build") or {}
    release, running = current.get("id"), info.get("running")
    if running and running != release:
        release = f"{running}, not {release}"
    acceptance, restarts = info.get("acceptance_length"), info.get("restarts")
    return (
        name,
        release or "none",
        (build.get("commit") or "")[:9] or build.get("version") or "-",
        str(info.get("state")),
        span(info.get("uptime")),
        "-" if restarts is None else str(restarts),
        "-" if acceptance is None else f"{acceptance:.2f}",
        str(current.get("url", "-")).rpartition(":")[2],
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

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as a person reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Host, Measurement

NOTHING = "-"
MARKS = {
    "passed": "✓",
    "done": "✓",
    "went back": "↶",
    "kept": "↷",
    "failed": "✗",
    "unreachable": "✗",
    "unfinished": "…",
    "not reached": "○",
}
"""Beside the words of the verdicts, in the order in which they are counted."""


def span(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min 5 s", "2 h 10 min" """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def percent(fraction: float | None) -> str:
    return NOTHING if fraction is None else f"{fraction:.1%}"


def number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def value(raw: Any) -> str:
    return "absent" if raw is None else json.dumps(raw, ensure_ascii=False)


def hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def counted(found: list[Host]) -> str:
    """ "5 hosts: 3 passed, 1 went back, 1 not reached" """
    if len(found) == 1:
        return f"1 host {found[0].verdict}"
    counts = Counter(host.verdict for host in found)
    return f"{hosts(len(found))}: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in MARKS if counts[verdict])


def named(all_names: Iterable[str]) -> dict[str, str]:
    """Hosts by what is enough to tell them apart: without the domain that all of them have."""
    names = list(all_names)
    domains = {name.partition(".")[2] for name in names}
    domain = domains.pop() if len(names) > 1 and len(domains) == 1 else ""
    return {name: name.partition(".")[0] if domain and not domain[-1].isdigit() else name for name in names}


def compared(host: Host) -> list[tuple[str, Measurement]]:
    """The first measurement and the last, with what they are to each other; or the one that there is.

    Where there is one, the first is what was known before of another release.
    """
    measured = host.measurements
    if len(measured) == 1 and host.before and host.before.release != measured[0].release:
        measured = [host.before, *measured]
    if len(measured) < 2:
        return [("back" if one.back else "measured", one) for one in measured]
    names = ("fell short", "back") if measured[-1].back else ("before", "after")
    return list(zip(names, (measured[0], measured[-1])))

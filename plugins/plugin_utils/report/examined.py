# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor saw: the servers, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Complaint, Host, Run, Server
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Content, Markup, tag

COLUMNS = ("host", "model", "port", "kept by", "vLLM", "drafter", "acceptance", "health")
SEVERITIES = ("error", "warning", "note")
GRADES = {"ok": ("good", "✓"), "warning": ("warning", "!"), "error": ("bad", "✗")}


def servers(run: Run) -> Markup | None:
    """A row for each server, and for each host without one; the sick first."""
    if all(host.servers is None for host in run.hosts):
        return None
    rows = sorted((row for host in run.hosts for row in _rows(host)), key=lambda row: row[0])
    return tag(
        "section",
        tag("h2", "Servers"),
        tag(
            "table",
            tag("caption", _counted(run)),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in COLUMNS))),
            tag("tbody", (row for _order, row in rows)),
            class_="hosts",
        ),
    )


def _counted(run: Run) -> str:
    """ "48 servers on 50 hosts: 37 ok, 4 warning, 7 error" """
    found = Counter(server.health for host in run.hosts for server in host.servers or [])
    count = sum(found.values())
    told = ", ".join(f"{found[health]} {health}" for health in GRADES if found[health])
    return f"{'1 server' if count == 1 else f'{count} servers'} on {words.hosts(len(run.hosts))}" + (
        f": {told}" if told else ""
    )


def _rows(host: Host) -> Iterator[tuple[int, Markup]]:
    for server in host.servers or []:
        yield -list(GRADES).index(server.health), _row(host.name, _cells(server), server.health)
    if not host.servers:
        told = "no server" if host.servers is not None else host.verdict
        graves = [one.severity for one in host.complaints if one.severity in GRADES]
        yield 1, _row(host.name, [("model", told)], min(graves, default=""))


def _cells(server: Server) -> list[tuple[str, Content]]:
    return [
        ("model", server.model),
        ("port", str(server.port)),
        ("kept by", server.keeper),
        ("vLLM", server.version or words.NOTHING),
        ("drafter", server.drafter.rpartition("/")[2] or words.NOTHING),
        ("acceptance", words.number(server.acceptance_length, 2)),
    ]


def _row(name: str, cells: list[tuple[str, Content]], health: str) -> Markup:
    grade, mark = GRADES.get(health, ("none", ""))
    empty = [tag("td")] * (len(COLUMNS) - 2 - len(cells))
    shown = (
        tag("td", content, data_label=label, class_="number" if label in ("port", "acceptance") else None)
        for label, content in cells
    )
    return tag(
        "tr", tag("th", name, scope="row"), shown, empty, tag("td", f"{mark} {health}", class_=f"verdict {grade}")
    )


def complaints(run: Run) -> Markup | None:
    """Each once, with all who have it: the worst first, and of those the most common."""
    same: dict[tuple[str, str, str], list[Complaint]] = {}
    for host in run.hosts:
        for one in host.complaints:
            same.setdefault((one.severity, one.what, one.remedy), []).append(one)
    if not same:
        return None
    names = ("severity", "what is wrong", "seen", "what to do", "where")
    ordered = sorted(same.values(), key=lambda ones: (SEVERITIES.index(ones[0].severity), -len(ones)))
    return tag(
        "section",
        tag("h2", "What is wrong"),
        tag(
            "table",
            tag("caption", "The worst first, and causes before symptoms"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in names))),
            tag("tbody", map(_complaint, ordered)),
            class_="findings",
        ),
    )


def _complaint(ones: list[Complaint]) -> Markup:
    one = ones[0]
    who = [complaint.who for complaint in ones]
    several = tag("details", tag("summary", f"{len(who)} servers"), ", ".join(who)) if len(who) > 1 else who[0]
    return tag(
        "tr",
        tag("td", one.severity, class_=f"severity {one.severity}"),
        tag("th", one.what, scope="row"),
        tag("td", one.evidence, data_label="seen"),
        tag("td", one.remedy, data_label="do"),
        tag("td", several, data_label="hosts"),
    )

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor saw: who is well and who is not, what is wrong, what those have in common, and all servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Complaint, Host, Run, Server
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Content, Markup, tag

SEVERITIES = ("error", "warning", "note")
GRADES = {"error": ("bad", "✗"), "not reached": ("none", "○"), "warning": ("warning", "!"), "ok": ("good", "✓")}
"""What may become of a host, the worst first."""
SHARED = ("error", "warning", "ok")
FEW = 4
"""So many of those who have a fault are named at once."""
OFTEN = 2
"""So many times as often as the others those are sick of whom it is said."""


def counted(run: Run) -> str:
    """ "48 servers on 50 hosts: 7 error, 4 warning, 37 ok. 1 host without a server has errors, 1 was not reached" """
    found = Counter(server.health for host in run.hosts for server in host.servers or [])
    count = sum(found.values())
    told = ", ".join(f"{found[health]} {health}" for health in GRADES if found[health])
    parts = [
        f"{'1 server' if count == 1 else f'{count} servers'} on {words.hosts(len(run.hosts))}"
        + (f": {told}" if told else "")
    ]
    sick = Counter(health(host) for host in run.hosts if not host.servers)
    parts += [f"{words.hosts(sick[name])} without a server: {name}" for name in ("error", "warning") if sick[name]]
    parts += [f"{words.hosts(sick['not reached'])} not reached"] if sick["not reached"] else []
    return "; ".join(parts)


def found(run: Run) -> tuple[str, str]:
    """How the run is to be looked at, as a verdict is, and what it came to, in words."""
    states = {health(host) for host in run.hosts}
    worst = next((name for name in ("error", "warning") if name in states), "ok")
    said = {"error": "found errors", "warning": "found warnings", "ok": "found nothing wrong"}[worst]
    missed = "not reached" in states
    state = "failed" if worst == "error" or missed else "warning" if worst == "warning" else "passed"
    return state, said + (", and did not reach all" if missed else "")


def examined(run: Run) -> list[Markup | None]:
    """The parts of the page; none if the doctor wasn't there."""
    if all(host.servers is None for host in run.hosts):
        return []
    return [_map(run), _complaints(run), _shared(run), _servers(run)]


def health(host: Host) -> str:
    """The worst that is said of a host."""
    if host.servers is None:
        return "not reached"
    said = {server.health for server in host.servers} | {one.severity for one in host.complaints}
    return next((name for name in GRADES if name in said), "ok")


def _map(run: Run) -> Markup:
    """Every host, by its health: what is to be seen before anything is read."""
    short = words.named(host.name for host in run.hosts)
    numbers = {host.name: n for n, host in enumerate(run.hosts)}

    def lane(name: str, hosts: list[Host]) -> Markup:
        grade, mark = GRADES[name]
        tiles = (
            tag("a", short[host.name], href=f"#examined-{numbers[host.name]}", class_=f"tile {grade}") for host in hosts
        )
        named = tag("b", f"{mark} {len(hosts)} {name}", class_=grade)
        return tag("p", named, " ", tag("span", ((tile, " ") for tile in tiles)))

    groups = {name: [host for host in run.hosts if health(host) == name] for name in GRADES}
    return tag(
        "section", tag("h2", "Health"), (lane(name, hosts) for name, hosts in groups.items() if hosts), class_="map"
    )


def _servers(run: Run) -> Markup:
    """A row for each server, and for each host without one; the sick first."""
    probed = any(server.probed is not None for host in run.hosts for server in host.servers or [])
    names = (
        "host",
        "model",
        "port",
        "kept by",
        "vLLM",
        "drafter",
        "acceptance",
        *(["probed"] if probed else []),
        "health",
    )
    rows = sorted((row for n, host in enumerate(run.hosts) for row in _rows(host, n, names)), key=lambda row: row[0])
    return tag(
        "section",
        tag("h2", "Servers"),
        tag(
            "table",
            tag("caption", "The sick first"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in names))),
            tag("tbody", (row for _order, row in rows)),
            class_="hosts",
        ),
    )  # fmt: skip


def _rows(host: Host, number: int, names: tuple[str, ...]) -> Iterator[tuple[int, Markup]]:
    grades = list(GRADES)
    for n, server in enumerate(host.servers or []):
        anchor = f"examined-{number}" if n == 0 else None
        yield grades.index(server.health), _row(host.name, _cells(server), server.health, names, anchor)
    if not host.servers:
        told = "no server" if host.servers is not None else host.verdict
        verdict = health(host)
        yield grades.index(verdict), _row(host.name, {"model": told}, verdict, names, f"examined-{number}")


def _cells(server: Server) -> dict[str, str]:
    return {
        "model": server.model,
        "port": str(server.port),
        "kept by": server.keeper,
        "vLLM": server.version or words.NOTHING,
        "drafter": server.drafter.rpartition("/")[2] or words.NOTHING,
        "acceptance": words.number(server.acceptance_length, 2),
        "probed": words.number(server.probed, 2),
    }


def _row(name: str, cells: dict[str, str], verdict: str, names: tuple[str, ...], anchor: str | None) -> Markup:
    grade, mark = GRADES[verdict]
    shown = (
        tag(
            "td", cells[label], data_label=label, class_="number" if label in ("port", "acceptance", "probed") else None
        )
        if label in cells
        else tag("td")
        for label in names[1:-1]
    )
    last = tag("td", f"{mark} {verdict}", class_=f"verdict {grade}")
    return tag("tr", tag("th", name, scope="row"), shown, last, id=anchor)


def _complaints(run: Run) -> Markup | None:
    """Each once, with all who have it: the worst first, and of those the most common."""
    same: dict[tuple[str, str, str], list[Complaint]] = {}
    for host in run.hosts:
        for one in host.complaints:
            same.setdefault((one.severity, one.what, one.remedy), []).append(one)
    if not same:
        return None
    names = ("severity", "what is wrong", "seen", "what to do", "where")
    ordered = sorted(same.values(), key=lambda ones: (SEVERITIES.index(ones[0].severity), -len(ones)))
    short = words.named(host.name for host in run.hosts)
    return tag(
        "section",
        tag("h2", "What is wrong"),
        tag(
            "table",
            tag("caption", "The worst first, and causes before symptoms"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in names))),
            tag("tbody", (_complaint(ones, short) for ones in ordered)),
            class_="findings",
        ),
    )


def _complaint(ones: list[Complaint], short: dict[str, str]) -> Markup:
    one = ones[0]
    who = [_short(complaint.who, short) for complaint in ones]
    several: Content = ", ".join(who[:FEW])
    if len(who) > FEW:
        several = tag("details", tag("summary", f"{len(who)}: {several}, ..."), ", ".join(who[FEW:]))
    return tag(
        "tr",
        tag("td", one.severity, class_=f"severity {one.severity}"),
        tag("th", one.what, scope="row"),
        tag("td", one.evidence, data_label="seen"),
        tag("td", one.remedy, data_label="do"),
        tag("td", several, data_label="where"),
    )


def _short(who: str, short: dict[str, str]) -> str:
    """A host, or one of its servers by the port."""
    host, colon, port = who.rpartition(":")
    return short.get(who) or f"{short.get(host, host)}{colon}{port}"


def _shared(run: Run) -> Markup | None:
    """The kinds of servers that are sick more often than the others: what those share may be the reason."""
    told = [(_cells(server), server.health) for host in run.hosts for server in host.servers or []]
    rows = []
    for name in ("vLLM", "model", "drafter", "kept by"):
        for value in dict.fromkeys(cells[name] for cells, _verdict in told):
            alike = [verdict for cells, verdict in told if cells[name] == value]
            others = [verdict for cells, verdict in told if cells[name] != value]
            if others and _sick(alike) >= 2 and _sick(alike) / len(alike) >= OFTEN * _sick(others) / len(others):
                rows.append((name, value, alike))
    if not rows:
        return None
    names = ("what", "which", "servers", *SHARED)
    return tag(
        "section",
        tag("h2", "What the sick share"),
        tag(
            "table",
            tag("caption", "Kinds of servers that are sick more often than the others"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in names))),
            tag("tbody", (_kind(*row) for row in rows)),
            class_="hosts shared",
        ),
    )


def _sick(verdicts: list[str]) -> int:
    return len(verdicts) - verdicts.count("ok")


def _kind(name: str, value: str, verdicts: list[str]) -> Markup:
    counts = Counter(verdicts)
    return tag(
        "tr",
        tag("td", name),
        tag("th", value, scope="row"),
        tag("td", str(len(verdicts)), class_="number", data_label="servers"),
        (
            tag(
                "td",
                str(counts[name] or words.NOTHING),
                data_label=name,
                class_=f"number {GRADES[name][0] if counts[name] else ''}",
            )
            for name in SHARED
        ),
    )

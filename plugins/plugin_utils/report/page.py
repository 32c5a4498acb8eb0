# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a run: one HTML file that needs nothing else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.drawing import legend, timeline
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.examined import counted, examined, found
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.part import anchor, part
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Finding, Host, Measurement, Run
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Content, Markup, tag

FEW = 8
"""So many hosts are shown in full at once; of more, those that are not well or not done, and no more than so many of them."""
MARKS = {"passed": "✓", "failed": "✗", "unfinished": "…", "warning": "!"}
# Nothing may be fetched, and nothing may run.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
FIGURES: tuple[tuple[str, Callable[[Measurement], str]], ...] = (
    ("acceptance length", lambda m: words.number(m.acceptance_length, 2)),
    ("position 0", lambda m: words.percent(m.position_0)),
    ("tokens/s", lambda m: words.number(m.tokens_per_second, 0)),
)


def page(run: Run) -> str:
    title = f"{run.playbook}: {_counts(run)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(Path(__file__).with_name("style.css").read_text(encoding="utf-8"))),
    )
    body = tag("body", _header(run), tag("main", examined(run) or _hosts(run), _findings(run), _parts(run)))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _counts(run: Run) -> str:
    return counted(run) if _is_examined(run) else words.counted(run.hosts)


def _is_examined(run: Run) -> bool:
    return any(host.servers is not None for host in run.hosts)


def _header(run: Run) -> Markup:
    state, said = found(run) if _is_examined(run) and run.verdict != "unfinished" else (run.verdict, run.verdict)
    mark = tag("span", MARKS[state], class_="mark", aria_hidden="true")
    bad = [host for host in run.hosts if host.bad]
    links: list[Content] = [[" ", tag("a", host.name, href=f"#{anchor(run, host)}")] for host in bad[:FEW]]
    more = f" and {len(bad) - FEW} more" if len(bad) > FEW else ""
    return tag(
        "header",
        tag("h1", mark, f" {run.playbook} {said}"),
        tag("p", _counts(run), class_="counts"),
        tag(
            "p",
            tag("time", run.started.replace("T", " ").replace("+00:00", " UTC"), datetime=run.started),
            f", {words.span(run.seconds)}",
            ", in check mode: nothing was changed" if run.check else "",
        ),
        tag("p", "So far. If the run is over, it was interrupted here.") if run.verdict == "unfinished" else None,
        tag("nav", "What went wrong:", links, more, aria_label="What went wrong") if bad else None,
        class_=state,
    )


def _hosts(run: Run) -> Markup:
    measured = any(host.measurements for host in run.hosts)
    names = ["host", "verdict", "release", *([name for name, _unused in FIGURES] if measured else []), "time"]
    scale = tag("span", (tag("i", words.span(run.seconds * n / 4) if n else "0") for n in (0, 2, 4)), class_="scale")
    columns = [tag("th", name, scope="col") for name in names]
    # A batch is what the play made of its hosts, so that those of one are neighbours but for the ones that were not reached.
    batches = itertools.groupby(sorted(run.hosts, key=_turn(run)), key=lambda host: (host.play, host.batch))
    return tag(
        "section",
        tag("h2", "Hosts"),
        legend(run.hosts),
        tag(
            "table",
            tag("caption", "The hosts by batch: what became of each, and when it was at what"),
            tag("thead", tag("tr", columns, tag("th", scale, scope="col", aria_label="timeline", class_="when"))),
            (_batch(run, key, list(hosts), measured) for key, hosts in batches),
            class_="hosts",
        ),
    )


def _turn(run: Run) -> Callable[[Host], tuple[int, float]]:
    plays = list(dict.fromkeys(host.play for host in run.hosts))
    return lambda host: (plays.index(host.play), host.batch or float("inf"))


def _batch(run: Run, key: tuple[str, int | None], hosts: list[Host], measured: bool) -> Markup:
    play, batch = key
    name = "Not reached" if batch is None else f"{play}, batch {batch}"
    span = 5 + (len(FIGURES) if measured else 0)
    head = tag("tr", tag("th", f"{name}: {words.hosts(len(hosts))}", scope="rowgroup", colspan=span), class_="batch")
    return tag("tbody", head, (_row(run, host, measured) for host in hosts))


def _row(run: Run, host: Host, measured: bool) -> Markup:
    def cell(name: str, *content: Content) -> Markup:
        return tag("td", content, class_="number", data_label=name)

    figures = []
    for name, spell in FIGURES if measured else ():
        told = [spell(one) for _unused, one in words.compared(host)]
        figures.append(cell(name, (tag("span", text, class_="before") for text in told[:-1]), *told[-1:]))
    return tag(
        "tr",
        tag("th", tag("a", host.name, href=f"#{anchor(run, host)}") if host.touched else host.name, scope="row"),
        tag("td", f"{words.MARKS[host.verdict]} {host.verdict}", class_=f"verdict {host.grade}"),
        cell("release", tag("code", host.release) if host.release else None),
        figures,
        cell("time", words.span(host.seconds) if host.stages else None),
        tag("td", timeline(host, run.seconds), class_="when"),
    )


def _findings(run: Run) -> Markup | None:
    """Hosts that were served the same drafter have the same findings, and these are told once."""
    same: dict[str, tuple[Finding, list[str]]] = {}
    for host in run.hosts:
        for finding in host.findings:
            key = json.dumps(vars(finding), sort_keys=True, default=str)
            same.setdefault(key, (finding, []))[1].append(host.name)
    if not same:
        return None
    names = ("severity", "key", "found", "wanted", "why", "evidence", "hosts")
    return tag(
        "section",
        tag("h2", "Findings"),
        tag(
            "table",
            tag("caption", "What was wrong with the drafter's config as it was found"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in names))),
            tag("tbody", (_finding(finding, hosts) for finding, hosts in same.values())),
            class_="findings",
        ),
    )


def _finding(finding: Finding, hosts: list[str]) -> Markup:
    several = tag("details", tag("summary", words.hosts(len(hosts))), ", ".join(hosts)) if len(hosts) > 1 else hosts[0]
    cells: Iterator[tuple[str, Content]] = iter(
        (
            ("found", tag("code", words.value(finding.found))),
            ("wanted", tag("code", "not known" if finding.wanted is None else words.value(finding.wanted))),
            ("why", finding.why),
            ("evidence", finding.evidence),
            ("hosts", several),
        )
    )
    return tag(
        "tr",
        tag("td", finding.severity, class_=f"severity {finding.severity}"),
        tag("th", tag("code", finding.key), scope="row"),
        (tag("td", content, data_label=name) for name, content in cells),
    )


def _parts(run: Run) -> Markup | None:
    reached = sorted((host for host in run.hosts if host.touched), key=lambda host: host.grade == "good")
    if not reached:
        return None
    few = len(reached) <= FEW
    shown = (part(run, host, opened=few or (host.grade != "good" and n < FEW)) for n, host in enumerate(reached))
    return tag("section", tag("h2", "Host by host"), shown)

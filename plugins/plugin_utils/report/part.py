# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host's part of the page: what failed, what was measured, what was done and how long that took."""

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.drawing import positions
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Host, Measurement, Run, Stage
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Markup, tag


def anchor(run: Run, host: Host) -> str:
    """The name of a host's part. Hosts may be named with anything, so it is made of their number."""
    return f"host-{run.hosts.index(host)}"


def part(run: Run, host: Host, opened: bool) -> Markup:
    summary = tag("summary", tag("b", host.name), f" {words.MARKS[host.verdict]} {host.verdict}", class_=host.grade)
    # A link to something within details opens them.
    doing = tag("p", "At: ", tag("b", host.doing), class_="doing") if host.doing else None
    content = tag(
        "div",
        doing,
        _failures(host),
        _acceptance(host),
        tag("div", _changes(host), _stages(host)),
        id=anchor(run, host),
    )
    return tag("details", summary, content, class_="part", **({"open": ""} if opened else {}))


def _failures(host: Host) -> list[Markup]:
    """The last one first: it is what the run ended with. What it repeats in full is not told again."""
    last = host.failures[-1].message if host.failures else ""
    return [
        tag("div", tag("h3", f"Failed: {failure.task}"), tag("pre", failure.message), class_="failure")
        for failure in reversed(host.failures)
        if failure is host.failures[-1] or failure.message not in last
    ]


def _acceptance(host: Host) -> Markup | None:
    if not host.measurements:
        return None
    series = words.compared(host)
    drawn = [(name, measured) for name, measured in series if measured.per_position]
    return tag(
        "figure",
        tag("figcaption", "Accepted by position, in percent"),
        tag("div", positions(drawn), class_="chart", tabindex=0) if drawn else None,
        tag("dl", (_measured(name, one, name == series[-1][0]) for name, one in series)),
    )


def _measured(name: str, measured: Measurement, last: bool) -> list[Markup]:
    figures = (
        f"acceptance length {words.number(measured.acceptance_length, 2)}, "
        f"rate {words.percent(measured.acceptance_rate)}, {words.number(measured.tokens_per_second, 0)} tokens/s"
    )
    release = f" ({measured.release})" if measured.release else ""
    return [
        tag("dt", tag("span", class_=f"key {'last' if last else 'first'}"), f"{name}{release}: {measured.verdict}"),
        tag("dd", figures, tag("p", measured.diagnosis)),
    ]


def _changes(host: Host) -> Markup | None:
    if not host.changes:
        return None
    listed = tag("ul", (tag("li", change) for change in host.changes), class_="changes")
    return tag("div", tag("h3", "What makes this release ", tag("code", host.tried or ""), " another one"), listed)


def _stages(host: Host) -> Markup | None:
    if not host.stages:
        return None
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in ("stage", "began at", "took"))))
    rows = [row for stage in host.stages for row in _stage(stage)]
    return tag("table", tag("caption", "Stages"), head, tag("tbody", rows), class_="stages")


def _stage(stage: Stage) -> list[Markup]:
    told = stage.role + (", on the way back" if stage.back else "") + (": ✗ failed" if stage.failed else "")
    times = [tag("td", words.span(seconds), class_="number") for seconds in (stage.started, stage.seconds)]
    row = tag("tr", tag("th", tag("span", class_=f"stage {stage.role}"), told, scope="row"), times)
    steps = [
        tag(
            "tr",
            tag("th", step["name"], scope="row"),
            tag("td"),
            tag("td", words.span(step["seconds"]), class_="number"),
            class_="step",
        )
        for step in stage.steps
    ]
    return [row, *steps]

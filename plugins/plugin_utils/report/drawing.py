# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page draws: when a host was at what, and what was accepted at each position."""

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Host, Measurement, Stage
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Markup, tag

ROLES = ("host", "build", "models", "drafter", "router", "serve", "verify")

NAMED, INITIAL = 11, 3
"""Percent of the run that a stage has to last for its name, or its first letter, to be written into it."""

BAR, GAP, HEIGHT, LETTERS = 24, 9, 110, 15


def timeline(host: Host, whole: float) -> Markup:
    """One host's stages over the seconds of the whole run."""
    told = ", ".join(f"{_what(stage)} {words.span(stage.seconds)}" for stage in host.stages)
    return tag("div", (_segment(stage, whole) for stage in host.stages), class_="lane", role="img", aria_label=told)


def _segment(stage: Stage, whole: float) -> Markup:
    left, width = (100 * seconds / (whole or 1) for seconds in (stage.started, stage.seconds))
    name = stage.role if width >= NAMED else stage.role[0] if width >= INITIAL else ""
    kinds = " ".join(["stage", stage.role, *(["back"] if stage.back else []), *(["failed"] if stage.failed else [])])
    return tag(
        "span",
        name,
        class_=kinds,
        style=f"left:{left:.2f}%;width:{width:.2f}%",
        title=f"{_what(stage)}: {words.span(stage.seconds)}",
    )


def _what(stage: Stage) -> str:
    return stage.role + (", on the way back" if stage.back else "") + (", failed" if stage.failed else "")


def legend(hosts: list[Host]) -> Markup:
    stages = [stage for host in hosts for stage in host.stages]
    shown = [(role, role) for role in ROLES if any(stage.role == role for stage in stages)]
    if any(stage.back for stage in stages):
        shown.append(("back", "on the way back"))
    if any(stage.failed for stage in stages):
        shown.append(("failed", "failed"))
    return tag("ul", (tag("li", tag("span", class_=f"stage {kind}"), name) for kind, name in shown), class_="legend")


def positions(series: list[tuple[str, Measurement]]) -> Markup:
    """Bars of what was accepted at each drafted position: one for each of the measurements, the last one in full colour."""
    count = max(len(measured.per_position) for _unused, measured in series)
    group = BAR * len(series) + GAP
    width, bottom = count * group + GAP, HEIGHT + LETTERS
    drawn = [tag("line", x1=0, x2=width, y1=bottom, y2=bottom, class_="axis")]
    for position in range(count):
        left = GAP + position * group
        drawn.append(_letters(str(position), left + BAR * len(series) / 2, bottom + LETTERS - 2, "position"))
        for n, (_unused, measured) in enumerate(series):
            if position < len(measured.per_position):
                kind = "last" if n == len(series) - 1 else "first"
                drawn += _bar(measured.per_position[position], left + n * BAR, bottom, kind)
    told = "; ".join(f"{name}: {', '.join(map(words.percent, m.per_position))}" for name, m in series)
    return tag(
        "svg",
        drawn,
        viewBox=f"0 0 {width} {bottom + LETTERS}",
        width=width,
        height=bottom + LETTERS,
        role="img",
        aria_label=f"Accepted by position, from 0 on. {told}",
    )


def _bar(fraction: float, left: float, bottom: float, kind: str) -> list[Markup]:
    height = max(fraction * HEIGHT, 1)
    return [
        tag("rect", x=left + 1, y=f"{bottom - height:.1f}", width=BAR - 2, height=f"{height:.1f}", class_=kind),
        _letters(f"{100 * fraction:.0f}", left + BAR / 2, bottom - height - 3, "value"),
    ]


def _letters(text: str, x: float, y: float, kind: str) -> Markup:
    return tag("text", text, x=x, y=f"{y:.1f}", class_=kind, text_anchor="middle")

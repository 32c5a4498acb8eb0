"""docs/benchmarks.md, of what results.json holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.llmops.vllm.tests.bench.results import CLONE, Target, load

PAGE = CLONE / "docs/benchmarks.md"
HEAD = """# Benchmarks

Made by `make bench` from what it measured; nothing here is typed by hand. Each table compares what the collection does with what people
would use instead, in one run on one machine. The ratios carry over to other machines, the seconds don't. The code is in `tests/bench/`.
"""


def page(stored: Mapping[str, Mapping[str, Any]]) -> str:
    sections = [line for name in sorted(stored) for line in _section(stored[name])]
    return "\n".join([HEAD, *(sections or ["There are no figures yet: it was not yet run as a whole.\n"])])


def write() -> None:
    PAGE.write_text(page(load()))


def _section(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {result['title']}\n\n{result['how']}\n"
    columns, compared = list(result["columns"]), result["compared"]
    heads = ["", *columns, *(["against ours"] if compared else [])]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|" + "---:|" * (len(heads) - 1)
    ours, *_others = result["rows"].values()
    for way, figures in result["rows"].items():
        cells = [_figure(figure) for figure in figures]
        if compared:
            at = columns.index(compared)
            cells.append("1" if figures is ours else _ratio(figures[at], ours[at]))
        yield f"| {way} | " + " | ".join(cells) + " |"
    yield ""
    for told in result["targets"]:
        target = Target(**told)
        yield f"- {target.says}: {_figure(target.figure)}, {'met' if target.met else '**missed**'}."
    if result["targets"]:
        yield ""
    measured = result["measured"]
    yield (
        f"Measured on {measured['day']} at commit {measured['commit']}, on {measured['on']} (load {measured['load']} at the end), "
        f"with {measured['with']}.\n"
    )


def _ratio(theirs: float | str, ours: float | str) -> str:
    return f"{_figure(theirs / ours)} times" if isinstance(theirs, float) and isinstance(ours, float) and ours else ""


def _figure(value: float | str) -> str:
    """Three digits that count."""
    if isinstance(value, str):
        return value
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"

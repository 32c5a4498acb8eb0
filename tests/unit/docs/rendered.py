"""The parts of the pages that are made of data. `make pages` writes them; a test compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLONE = Path(__file__).parents[3]
sys.path.insert(0, str(CLONE / ".collections"))  # for `make pages`; in the tests it is there already

from ansible_collections.llmops.vllm.plugins.module_utils._build import causes as build_causes  # noqa: E402
from ansible_collections.llmops.vllm.plugins.module_utils._doctor import known  # noqa: E402
from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns  # noqa: E402
from ansible_collections.llmops.vllm.tests import tested  # noqa: E402
from ansible_collections.llmops.vllm.tests.bench import page as bench  # noqa: E402
from ansible_collections.llmops.vllm.tests.bench import results  # noqa: E402

DOCS = CLONE / "docs"


def log_causes() -> str:
    """Every cause that the log's judge knows, in the order in which it looks for them."""
    return "\n".join(
        f"### {cause.name.replace('_', ' ')}\n\n```text\n" + "\n".join(cause.samples) + f"\n```\n\n{cause.hint}\n"
        for cause in patterns.CAUSES
    )


def log_benign() -> str:
    samples = [sample for kind in (patterns.BENIGN, patterns.IDLE) for pattern in kind for sample in pattern.samples]
    return "```text\n" + "\n".join(samples) + "\n```\n"


def build_failures() -> str:
    """What the collection says of a build. The last ones only pass on what a tool says, with no remedy."""
    rows = [
        f"| {_cell(re.sub(r'{[0-9]}', '…', cause.words))} | {_cell(re.sub(r'{[0-9]}', '…', cause.remedy))}. |"
        for cause in build_causes.CAUSES
        if cause.remedy
    ]
    return "| it says | do |\n|---|---|\n" + "\n".join(rows) + "\n"


def known_faults() -> str:
    return "".join(
        f"- **{_versions(fault)}, with {_features(fault)}**: {fault.symptom} {fault.remedy} ({_source(fault.source)})\n"
        for fault in known.FAULTS
    )


def _versions(fault: known.Fault) -> str:
    first, before = (".".join(map(str, numbers)) for numbers in (fault.first, fault.before))
    if fault.before == known.NONE:
        return "all versions" if fault.first == known.ANY else f"from {first} on"
    return f"before {before}" if fault.first == known.ANY else f"from {first} to before {before}"


def _features(fault: known.Fault) -> str:
    return ", ".join(name.replace("-", " ") for name in fault.when)


def _source(source: str) -> str:
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", source)
    return f"[#{match[2]}](https://github.com/{match[1]}/issues/{match[2]})" if match else source


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PARTS = {
    "troubleshooting": {
        "log-causes": log_causes,
        "log-benign": log_benign,
        "build-failures": build_failures,
        "known-faults": known_faults,
    },
}
"""By page, its parts. Each stands between two comments with its name."""


def page(name: str, text: str) -> str:
    """A page with its parts as the data has them now."""
    for part, render in PARTS[name].items():
        begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{render()}\n{end}{rest.split(end)[1]}"
    return text


def pages() -> dict[Path, str]:
    """What every such page should be."""
    made = {DOCS / f"{name}.md": page(name, (DOCS / f"{name}.md").read_text()) for name in PARTS}
    return {**made, DOCS / "tested.md": tested.page(), bench.PAGE: bench.page(results.load())}


if __name__ == "__main__":
    tested.write(tested.read())
    for path, text in pages().items():
        path.write_text(text)

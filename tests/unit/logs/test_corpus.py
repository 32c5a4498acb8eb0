"""Every log of the corpus is judged as a reader judges it, however it comes in."""

from __future__ import annotations

import dataclasses
import io
import json
import random

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs import patterns, scan
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.scan import Scanner
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import CORPUS, LABELS, Said, judge, log, said

NAMES = sorted(LABELS)


def test_every_log_has_a_label():
    assert sorted(f"{p.parent.name}/{p.stem}" for p in CORPUS.glob("*/*.log")) == NAMES


def check(name: str, said: Said) -> None:
    label = LABELS[name]
    assert (said.ready and said.ready.number) == label.get("ready")
    if "cause" in label:
        number, kind, text = label["cause"]
        assert said.cause and (said.cause.number, said.cause.kind) == (number, kind)
        assert text in said.cause.text
        assert said.cause.hint
    decided = "failed" if said.failed else "stopped" if said.stopping else "ready" if said.ready else None
    assert decided == (label["verdict"] if label["verdict"] in ("failed", "stopped", "ready") else None)


@pytest.mark.parametrize("name", NAMES)
def test_in_one_piece(name):
    check(name, judge([log(name)]))


@pytest.mark.parametrize("name", NAMES)
def test_in_random_pieces(name):
    data, chance = log(name), random.Random(name)
    whole = judge([data])
    for biggest in (1, 7, 300, 5000):
        pieces, at = [], 0
        while at < len(data):
            size = chance.randint(1, biggest)
            pieces.append(data[at : at + size])
            at += size
        assert judge(pieces) == whole


@pytest.mark.parametrize("name", NAMES)
def test_with_the_line_ends_of_another_system(name):
    for attentive in (scan.ATTENTIVE, 0):
        assert judge([log(name).replace(b"\n", b"\r\n")], attentive=attentive) == judge(
            [log(name)], attentive=attentive
        )


def shifted(said: Said, lines: int) -> Said:
    """The same, said of a log that has so many more lines before it."""
    numbered = {
        name: value and dataclasses.replace(value, number=value.number + lines)
        for name, value in vars(said).items()
        if name in ("ready", "failed", "stopping", "cause")
    }
    if numbered["cause"]:
        numbered["cause"].start += lines
    return dataclasses.replace(said, **numbered, lines=said.lines + lines)


def begun(data: bytes) -> int:
    """Where the last launch begins, a head's or a follower's; negative where none does."""
    return max(data.rfind(word) for word in patterns.ANEW)


@pytest.mark.parametrize("name", [n for n in NAMES if begun(log(n)) >= 0])
def test_once_another_launch_begins_nothing_before_it_counts(name):
    """Neither a verdict nor troubles, stages, facts or context, in whatever state the launch before was left."""
    data = log(name)
    begin = data.rfind(b"\n", 0, begun(data)) + 1
    launch, chance = data[begin:], random.Random(name)
    expected = judge([launch])
    for other in chance.sample(NAMES, 8):
        before = log("logs/ready")[: chance.randrange(20000)] + b"\n" + log(other)
        before += b"" if before.endswith(b"\n") else b"\n"
        lines = before.count(b"\n")
        for attentive in (scan.ATTENTIVE, 10_000):
            whole = judge([before + launch], attentive=attentive)
            assert judge([before, launch], attentive=attentive) == whole
            assert judge(io.BytesIO(before + launch).readlines(), attentive=attentive) == whole
            if attentive == scan.ATTENTIVE:
                assert whole == shifted(expected, lines)


# What a shell or argparse says comes at the start or last; elsewhere nobody looks for it.
FIRST_OR_LAST = {"arguments", "killed", "missing_program"}


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n.startswith("logs/") and LABELS[n].get("cause", [0, ""])[1] not in FIRST_OR_LAST]
)
def test_when_only_lines_of_consequence_are_looked_at(name):
    data, chance = log(name), random.Random(name)
    said = judge([data], attentive=0)
    check(name, said)
    assert said.lines == judge([data]).lines
    for cut in chance.choices(range(len(data)), k=20):
        assert judge([data[:cut], data[cut:]], attentive=0) == said


def test_an_unfinished_line_counts_once_it_is_whole():
    data = log("logs/ready")
    before = data[: data.index(b"Application startup complete.")]
    assert judge([before, b"Application startup comp"]).ready is None
    assert judge([before, b"Application startup comp", b"lete."]).ready.text == "Application startup complete."


@pytest.mark.parametrize("name", NAMES)
def test_handed_on_from_judge_to_judge(name):
    """A judge's knowledge is plain data, in the middle of a traceback as anywhere."""
    lines = [line + b"\n" for line in log(name).split(b"\n")]
    one, seen = Judge(Profile()), 0
    for line in lines:
        scanner = Scanner(one, seen=seen)
        scanner.feed(line, 0.0)
        seen += len(line)
        known = json.dumps(one.dump())
        one = Judge(Profile())
        one.load(json.loads(known))
        assert json.dumps(one.dump()) == known
    check(name, said(one))

"""Whatever is in a log, and however it comes in: nothing raises, nothing depends on the cuts, nothing outlasts its deadline."""

from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.llmops.vllm.plugins.module_utils._logs import masks, outcome, patterns, tracebacks
from ansible_collections.llmops.vllm.plugins.module_utils._logs import wait as waits
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Process
from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import parse
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import LABELS, judge, log

# What a log is made of, whole and in pieces, in any order.
DRESS = [
    b"", b"INFO:     ", b"(APIServer pid=1) INFO 11-30 06:49:31 [a.py:1] ", b"(Worker_TP0 pid=2) ERROR 11-30 06:49:31 [a.py:1] ",
    b"(Worker_TP1 pid=3) ERROR 11-30 06:49:31 [a.py:2] ", b"ERROR 13-99 99:99:99 [a.py:1] ", b"(EngineCore_DP0 pid=4) ",
    b"Nov 30 07:04:07 gpu1 vllm[4]: ", b"\x1b[1;36m(Worker pid=5)\x1b[0m WARNING 11-30 06:49:31 [a.py:1] ", b"\xff\xfe",
]  # fmt: skip
TABLES = [
    patterns.READY, patterns.STOPPING, patterns.FATAL, patterns.UNDERSTATED, patterns.TROUBLE, patterns.WRAPPERS, patterns.CAUSES,
    patterns.BENIGN, patterns.IDLE, (patterns.LAUNCH, patterns.PROCESS),
]  # fmt: skip
TEXTS = [
    *[sample.encode() for table in TABLES for pattern in table for sample in pattern.samples],
    *[chain.encode() for chain in (tracebacks.BEGIN, *tracebacks.CHAINS)],
    b'  File "/opt/vllm/bin/vllm", line 1, in <module>',
    b"    raise",
    b"    ^^^^^",
    b"",
    b"Loading safetensors checkpoint shards:  45% Completed | 5/11",
    b"x" * 70000,
]
FRAMES = [
    b'  File "/opt/vllm/a.py", line 1, in run',
    b"    ^^^^^",
    b"\tat",
    b"  | + Exception Group",
    b"    caf\xe9",
    b"    \x1b[1mx",
]
PIECE = st.one_of(
    st.builds(lambda dress, text, end: dress + text + end, *map(st.sampled_from, (DRESS, TEXTS, [b"\n", b"\n", b"\r\n", b"\r", b""]))),
    st.builds(lambda dress, text, times: (dress + text + b"\n") * times, *map(st.sampled_from, (DRESS, FRAMES)), st.integers(1, 30)),
    st.binary(max_size=40),
)  # fmt: skip
LOG = st.lists(PIECE, max_size=60).map(b"".join)
MODEST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MODEST
@given(LOG, st.lists(st.integers(0, 100_000), max_size=12))
def test_the_cuts_do_not_matter(data, cuts):
    whole = judge([data])
    ends = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    assert judge([data[a:b] for a, b in zip(ends, ends[1:])]) == whole
    assert judge(io.BytesIO(data).readlines()) == whole


@MODEST
@given(LOG)
def test_what_a_judge_knows_can_be_handed_on_anywhere(data):
    for line in data.split(b"\n"):
        one = Judge(Profile())
        one.see(parse(1, line[:1000]), 0.0)
        known = json.dumps(one.dump())
        other = Judge(Profile())
        other.load(json.loads(known))
        assert json.dumps(other.dump()) == known


@MODEST
@given(LOG, st.integers(0, 2))
def test_any_result_can_be_told(tmp_path_factory, data, context):
    path = tmp_path_factory.mktemp("log") / "server.log"
    path.write_bytes(data)
    wait = Wait(Follower(str(path)), Judge(Profile(), context), Process(), Waker(), Limits(0))
    told = outcome.outcome(wait.run(), wait)
    assert told["verdict"] in ("ready", "failed", "stopped", "pending")
    assert json.loads(json.dumps(told))["msg"]
    assert told["bytes"] == len(data)
    assert outcome.unpack(outcome.pack(wait.dump()))["bytes"] == len(data) - len(wait.scanner.rest)


@MODEST
@given(st.one_of(st.text(max_size=200), LOG.map(lambda b: b[:2000].decode("utf-8", "replace"))))
def test_masking_keeps_lines_and_is_done_once(text):
    masked = masks.mask(text)
    assert masked.count("\n") == text.count("\n")
    assert masks.mask(masked) == masked


@pytest.mark.parametrize("name", [n for n in LABELS if n.startswith("logs/")])
def test_a_log_that_is_torn_anywhere_never_becomes_ready_or_failed_by_it(name):
    """A verdict on a part is one that the whole would have had at that place."""
    data = log(name)
    label = LABELS[name]
    for cut in range(0, len(data), 997):
        said = judge([data[:cut]])
        assert not said.ready or label.get("ready") == said.ready.number
        assert not said.failed or label["verdict"] == "failed"


@pytest.mark.parametrize("timeout", [0, 1])
def test_a_log_that_grows_faster_than_it_is_read_does_not_outlast_the_deadline(tmp_path, monkeypatch, timeout):
    path = tmp_path / "server.log"
    path.write_bytes(b"noise\n" * 1000)

    class Endless(Follower):
        """A real one can't be kept ahead of a reader for sure."""

        def read(self) -> bytes:
            super().read()
            return b"(APIServer pid=1) INFO 11-30 06:49:31 [a.py:1] noise\n" * 2000

    monkeypatch.setattr(waits, "NOW", 1)
    began = time.monotonic()
    wait = Wait(Endless(str(path)), Judge(Profile()), Process(), Waker(), Limits(timeout))
    assert wait.run() == ("timeout" if timeout else "pending")
    assert time.monotonic() - began < 3
    assert wait.notes() == ["Time was up before the log was read to its end."]

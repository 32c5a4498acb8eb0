"""A line in every dress that it comes in."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs.lines import parse, seconds


@pytest.mark.parametrize(
    ("raw", "process", "level", "text"),
    [
        ("INFO:     Application startup complete.", "", "INFO", "Application startup complete."),
        ("INFO 02-20 19:00:40 [launcher.py:26] Route: /health", "", "INFO", "Route: /health"),
        ("(APIServer pid=454) INFO 11-30 06:51:40 [model.py:733] Resolved", "APIServer pid=454", "INFO", "Resolved"),
        ("(EngineCore pid=3297) ERROR 11-30 06:57:11 [core.py:1510]   File", "EngineCore pid=3297", "ERROR", "  File"),
        ("(EngineCore_DP0 pid=902) Process EngineCore_DP0:", "EngineCore_DP0 pid=902", "", "Process EngineCore_DP0:"),
        ("(Worker_TP0 pid=1) WARNING 11-30 06:57:11 [a.py:1] x", "Worker_TP0 pid=1", "WARNING", "x"),
        ("(VllmWorker rank=0 pid=5119) ERROR 04-22 16:40:40 [m.py:435] x", "VllmWorker rank=0 pid=5119", "ERROR", "x"),
        ("(EngineCore_0 pid=7) (VllmWorker TP1 pid=8) INFO 01-01 00:00:00 [a.py:1] x", "VllmWorker TP1 pid=8", "INFO", "x"),
        ("(RayWorkerProc pid=8, ip=192.0.2.2) x", "RayWorkerProc pid=8, ip=192.0.2.2", "", "x"),
        ("(RayWorkerProc pid=8, ip=2001:db8::2) (Worker_TP1 pid=8) INFO 01-01 00:00:00 [a.py:1] x", "Worker_TP1 pid=8", "INFO", "x"),
        ("[rank1]: ValueError: x", "rank1", "", "ValueError: x"),
        ("(APIServer pid=1) CRITICAL 11-30 06:57:11 [a.py:1] x", "APIServer pid=1", "CRITICAL", "x"),
        ("ERROR 11-30 06:57:11,123 [a.py:1] x", "", "ERROR", "x"),
        ("Nov 30 07:04:07 gpu1 vllm[44]: INFO:     x", "", "INFO", "x"),
        ("2026-11-30T07:04:07+0000 gpu1 launch.py[1]: (Worker pid=2) INFO 11-30 07:04:07 [a.py:1] x", "Worker pid=2", "INFO", "x"),
        ("Nov 30 07:04:07 gpu1 systemd[1]: vllm.service: Failed.", "systemd", "", "vllm.service: Failed."),
        ("2026-11-30T07:04:07.123456789Z stderr F INFO:     x", "", "INFO", "x"),
        ("\x1b[1;36m(Worker pid=80)\x1b[0;0m INFO 12-01 00:00:20 [a.py:1] x", "Worker pid=80", "INFO", "x"),
        ("\x1b[32mINFO\x1b[0m:     x", "", "INFO", "x"),
        ("\x1b]0;title\x07INFO:     x", "", "INFO", "x"),
        ("INFORMATION is no level", "", "", "INFORMATION is no level"),
        ("(not a process) x", "", "", "(not a process) x"),
        ("    indented", "", "", "    indented"),
        ("", "", "", ""),
    ],
)  # fmt: skip
def test_dress(raw, process, level, text):
    line = parse(1, raw.encode())
    assert (line.process, line.level, line.text) == (process, level, text)


def test_what_is_not_text_is_read_all_the_same():
    line = parse(7, b"INFO:     caf\xe9 \xff\xfe\x00")
    assert (line.number, line.level, line.text) == (7, "INFO", "caf\ufffd \ufffd\ufffd\x00")


def test_lines_of_one_record_have_the_same_head():
    first = parse(1, b"(Worker pid=1) ERROR 11-30 06:49:31 [m.py:953] WorkerProc failed to start.")
    blank = parse(2, b"(Worker pid=1) ERROR 11-30 06:49:31 [m.py:953]")
    later = parse(3, b"(Worker pid=1) ERROR 11-30 06:49:32 [m.py:953] x")
    assert first.head == blank.head != later.head


def test_a_forwarder_does_not_part_records():
    """journald stamps every line with a time of its own."""
    first = parse(1, b"Nov 30 07:04:07 gpu1 vllm[44]: (Worker pid=1) ERROR 11-30 06:49:31 [m.py:953] x")
    second = parse(2, b"Nov 30 07:04:08 gpu1 vllm[44]: (Worker pid=1) ERROR 11-30 06:49:31 [m.py:953] y")
    assert first.head == second.head


def test_times():
    assert parse(1, b"INFO 11-30 06:49:31 [m.py:953] x").stamp == "11-30 06:49:31"
    assert seconds("11-30 06:49:31") - seconds("11-30 06:48:30") == 61
    assert seconds("02-29 00:00:00") is not None
    assert seconds("13-01 00:00:00") is None
    assert seconds("") is None

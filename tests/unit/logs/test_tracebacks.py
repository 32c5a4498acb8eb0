"""Which of many exceptions is the root."""

from __future__ import annotations

from ansible_collections.llmops.vllm.tests.unit.logs.corpus import judge

HEAD = "({} pid={}) ERROR 11-30 06:49:{} [m.py:953] "


def record(process: str, pid: int, second: int, *texts: str) -> list[str]:
    return [HEAD.format(process, pid, second) + text for text in texts]


def trace(exception: str, *, title: str = "WorkerProc failed to start.") -> list[str]:
    frames = ['  File "/opt/vllm/a.py", line 1, in load', "    raise", "    ^^^^^"]
    return [title, "Traceback (most recent call last):", *frames, exception]


def said(*lines: str):
    return judge(["\n".join([*lines, ""]).encode()])


def main_trace(*exception: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/bin/vllm", line 8, in <module>',
        "    main()",
        *exception,
    ]


def test_interleaved_line_by_line_the_first_that_began_is_the_root():
    one = record("Worker_TP1", 8, 31, *trace("ValueError: one"))
    two = record("Worker_TP0", 7, 31, *trace("ValueError: two"))
    mixed = [line for pair in zip(one, two) for line in pair]
    assert said(*mixed).cause.text == "ValueError: one"
    assert said(*mixed).cause.process == "Worker_TP1 pid=8"
    assert said(*mixed).cause.number == len(mixed) - 1
    swapped = [line for pair in zip(two, one) for line in pair]
    assert said(*swapped).cause.text == "ValueError: two"


def test_the_whole_message_is_taken():
    told = said(*record("Worker", 7, 31, *trace("RuntimeError: first"), "second", "", "third"), "INFO:     other")
    assert told.cause.text == "RuntimeError: first\nsecond\nthird"


def test_an_unsigned_message_ends_where_others_write():
    told = said(*main_trace("ValueError: first", "  Value error, second"), "nanobind: leaked 4 instances!", "more")
    assert told.cause.text == "ValueError: first\n  Value error, second"


def test_a_chain_is_told_by_its_last_exception_that_is_known():
    chained = "During handling of the above exception, another exception occurred:"
    first = main_trace("OSError: [Errno 98] Address already in use")
    assert said(*first, "", chained, "", *main_trace("ValueError: unknown")).cause.kind == "port"
    assert said(*first, "", chained, "", *main_trace("MemoryError: known too")).cause.kind == "memory"


def test_an_exception_that_was_survived_is_not_the_root():
    told = said(
        *record("Worker", 7, 30, *trace("ValueError: caught and logged", title="Could not tune.")),
        *record("EngineCore", 9, 31, *trace("KeyError: 'fatal'", title="EngineCore failed to start.")),
    )
    assert told.cause.text == "KeyError: 'fatal'"


def test_an_exception_before_a_wrapper_is_the_root_though_it_was_only_logged():
    told = said(
        *record("Worker", 7, 30, *trace("ValueError: logged", title="Something else.")),
        *main_trace("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    )
    assert told.cause.text == "ValueError: logged"


def test_what_went_wrong_before_the_server_was_ready_did_no_harm():
    told = said(
        *record("Worker", 7, 30, *trace("ValueError: logged", title="Something else.")),
        "INFO:     Application startup complete.",
        *record("EngineCore", 9, 31, "EngineCore encountered a fatal error."),
    )
    assert told.ready.number == 7
    assert told.cause.text == "EngineCore encountered a fatal error."


def test_a_traceback_below_error_is_none():
    told = said(*[line.replace("ERROR", "WARNING") for line in record("Worker", 7, 30, *trace("ValueError: x"))])
    assert told.failed is None
    assert told.cause is None


def test_an_uncaught_exception_of_the_main_module_is_fatal_and_one_of_a_thread_is_not():
    thread = [
        "Exception in thread Thread-1:",
        "Traceback (most recent call last):",
        '  File "/usr/lib/t.py", line 1, in run',
    ]
    assert said(*main_trace("ValueError: x")).failed.text == "ValueError: x"
    assert said(*thread, "ValueError: x").failed is None


def test_an_interrupt_is_a_stop():
    assert said(*main_trace("KeyboardInterrupt")).stopping.text == "KeyboardInterrupt"


def test_after_a_stop_nothing_is_fatal():
    told = said("INFO:     Shutting down", *record("EngineCore", 9, 31, "EngineCore encountered a fatal error."))
    assert (told.stopping.number, told.failed, told.cause) == (1, None, None)


def test_an_unsigned_traceback_belongs_to_the_process_that_was_named():
    told = said(
        "Process EngineCore:",
        "Traceback (most recent call last):",
        '  File "/usr/lib/p.py", line 1, in _b',
        "KeyError: 1",
    )
    assert told.cause.process == "EngineCore"
    assert told.failed.text == "KeyError: 1"


def test_systemd_may_interrupt_a_traceback():
    """Its words about a unit come between those of the unit."""
    words = "(systemd pid=1) vllm.service: Main process exited, code=exited, status=1/FAILURE"
    trace = main_trace("OSError: [Errno 98] Address already in use")
    for at in range(len(trace) + 1):
        assert said(*trace[:at], words, *trace[at:]).cause.text == "OSError: [Errno 98] Address already in use"


def test_a_torn_traceback_does_no_harm():
    assert said("Traceback (most recent call last):").cause is None
    assert said("Traceback (most recent call last):", "Traceback (most recent call last):", "x").failed is None
    torn = record("Worker", 7, 30, *trace("ValueError: x")[:4])
    assert said(*torn, *record("Worker", 7, 31, "later")).cause.text == "WorkerProc failed to start."


def test_thousands_of_exceptions_are_kept_within_bounds():
    lines = [
        line
        for n in range(500)
        for line in record("APIServer", 7, 10 + n % 50, *trace(f"ValueError: {n}", title="No."))
    ]
    told = said(
        "INFO:     Application startup complete.", *lines, *record("EngineCore", 9, 31, *trace("KeyError: 'x'"))
    )
    assert told.cause.text == "KeyError: 'x'"

"""A sleeper wakes when something stirs, long before the time that it was given; also where nothing can wake it."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._logs import wake
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


@pytest.fixture
def waker(path):
    waker = Waker(str(path))
    yield waker
    waker.close()


@pytest.fixture
def never_looks(monkeypatch):
    """Only what wakes it ends its sleep."""
    monkeypatch.setattr(wake, "LOOK", 60)
    monkeypatch.setattr(wake, "POLL", 60)


def slept(waker, do, **watched) -> float:
    threading.Timer(0.2, do).start()
    began = time.monotonic()
    waker.wait(30, **watched)
    return time.monotonic() - began


@pytest.mark.usefixtures("never_looks")
def test_woken_by_a_log_that_appears_grows_or_is_replaced(path, waker):
    assert slept(waker, path.touch) < 20
    assert slept(waker, lambda: path.write_bytes(b"x")) < 20
    assert slept(waker, lambda: path.rename(path.with_suffix(".1"))) < 20


@pytest.mark.usefixtures("never_looks")
def test_woken_by_a_death(waker):
    with subprocess.Popen(["sleep", "60"]) as process:
        assert slept(waker, process.kill, pid=process.pid) < 20


@pytest.mark.usefixtures("never_looks")
def test_woken_by_a_stream():
    read, write = os.pipe()
    waker = Waker()
    assert slept(waker, lambda: os.write(write, b"x"), stream=read) < 20
    waker.close()
    os.close(read)
    os.close(write)


def test_without_inotify_it_looks_often(path, monkeypatch):
    monkeypatch.setattr(wake, "_libc", lambda: None)
    waker = Waker(str(path))
    path.touch()
    began = time.monotonic()
    waker.wait(30)
    assert time.monotonic() - began < 20

"""Waits with real processes and real files."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.plugins.module_utils._logs import outcome
from ansible_collections.llmops.vllm.plugins.module_utils._logs import wait as waiting
from ansible_collections.llmops.vllm.plugins.module_utils._logs.follow import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import Process
from ansible_collections.llmops.vllm.plugins.module_utils._logs.options import profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.probe import Probe
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wait import Limits, Wait
from ansible_collections.llmops.vllm.plugins.module_utils._logs.wake import Waker
from ansible_collections.llmops.vllm.tests.unit.logs.corpus import LABELS, log

READY = b"INFO:     Application startup complete.\n"
# Writes what it is told on its input, and ends as it is told.
WRITER = """
import os, sys
for line in sys.stdin.buffer:
    word, rest = line.split(b" ", 1) if b" " in line else (line.strip(), b"")
    if word == b"write":
        os.write(1, bytes.fromhex(rest.decode()))
    elif word == b"exit":
        os._exit(int(rest))
    elif word == b"kill":
        os.kill(os.getpid(), int(rest))
"""


class Writer:
    """A server that writes what the test says when the test says so."""

    def __init__(self, path) -> None:
        with open(path, "ab") as out:
            self.process = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=out)
        self.pid = self.process.pid

    def say(self, order: str) -> None:
        self.process.stdin.write(order.encode() + b"\n")
        self.process.stdin.flush()

    def write(self, data: bytes, piece: int = 4096) -> None:
        for at in range(0, len(data), piece):
            self.say(f"write {data[at : at + piece].hex()}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


@pytest.fixture
def writer(path):
    writer = Writer(path)
    yield writer
    writer.end()


@pytest.fixture
def make(path):
    """A wait for the log, at most 30 s long unless the test is about that."""
    wakers = []

    def make(*, timeout=30, pid=0, pidfile="", asked=None, elapsed=0.0, state=None, **limits):
        known = state or {}
        wakers.append(Waker(str(path)))
        wait = Wait(
            Follower(str(path), known.get("mark"), tail=bytes.fromhex(known.get("tail", ""))),
            Judge(asked or Profile()),
            Process(pid, str(pidfile)),
            wakers[-1],
            Limits(timeout, limits.get("stall"), limits.get("slice")),
            probe=limits.get("probe"),
            elapsed=elapsed,
        )
        if state:
            wait.load(state)
        return wait

    yield make
    for waker in wakers:
        waker.close()


def none(**options):
    """A profile of the user's own."""
    return profile({"ready": [], "failed": [], "ignore": [], "stages": [], "profile": "none", **options})


def test_ready_while_the_server_lives(make, writer):
    writer.write(log("logs/ready"), 777)
    wait = make(pid=writer.pid)
    assert wait.run() == "ready"
    assert wait.judge.ready.number == 127


@pytest.mark.parametrize("name", sorted(LABELS))
def test_the_corpus_growing_until_its_process_ends(make, writer, name):
    """The verdict on the whole log, wherever the process had come when somebody looked."""
    label = LABELS[name]
    writer.write(log(name), 1000)
    if not label.get("alive"):
        writer.say(f"exit {label['code']}" if "code" in label else f"kill {label['signal']}")
    elif label["verdict"] == "pending":
        writer.write(b"\n")
    wait = make(pid=writer.pid, slice=None if label["verdict"] != "pending" else 0.5)
    verdict = wait.run()
    if verdict == "ready" and label["verdict"] != "ready" and label.get("ready"):
        assert wait.judge.ready.number == label["ready"]  # it was, when we came by
        writer.process.wait()
        wait = make(pid=writer.pid)
        verdict = wait.run()
    assert verdict == label["verdict"]
    told = outcome.outcome(verdict, wait)
    assert told["was_ready"] == bool(label.get("ready"))
    if "cause" in label:
        assert [told["cause"]["number"], told["cause"]["kind"]] == label["cause"][:2]
        assert label["cause"][2] in told["cause"]["text"]


def test_a_death_of_which_the_log_says_nothing(make, writer):
    writer.write(b"INFO 11-30 06:49:31 [a.py:1] Starting to load model x\n")
    writer.say("kill 9")
    wait = make(pid=writer.pid)
    assert wait.run() == "exited"
    assert (
        "was killed by signal 9 (SIGKILL), and the log does not say why (last stage: loading the weights)."
        in outcome.outcome("exited", wait)["msg"]
    )
    assert f"(pid {writer.pid})" in outcome.outcome("exited", wait)["msg"]


def test_death_ends_a_wait_at_once(make, writer):
    """Not by chance of looking: nothing else wakes this wait for 25 s."""
    wait = make(pid=writer.pid, timeout=25)
    began = time.monotonic()
    threading.Timer(0.3, writer.say, ["exit 3"]).start()
    assert wait.run() == "exited"
    assert time.monotonic() - began < 20
    assert wait.exit.code == 3


def test_a_process_that_is_not_there(make, path, writer):
    path.write_bytes(b"x\n")
    writer.end()
    assert make(pid=writer.pid).run() == "exited"


def record(process: subprocess.Popen, pidfile) -> None:
    identity = {"pid": process.pid, "start_ticks": processes.start_ticks(process.pid), "boot_id": processes.boot_id()}
    pidfile.write_text(json.dumps({**identity, "argv": [], "started_at": "", "log": "", "mark": {}}))


def test_the_exit_record_of_a_pid_file(make, tmp_path, path, writer):
    record(writer.process, tmp_path / "pid")
    identity = json.loads((tmp_path / "pid").read_text())
    path.write_bytes(b"x\n")
    writer.end()
    end = {"pid": writer.pid, "start_ticks": identity["start_ticks"], "code": 7, "signal": None, "ended_at": ""}
    wait = make(pidfile=tmp_path / "pid")
    # The keeper writes it a moment after the end.
    threading.Timer(0.2, (tmp_path / "pid.exit").write_text, [json.dumps(end)]).start()
    assert wait.run() == "exited"
    assert wait.exit.code == 7


def test_a_pid_file_of_another_boot_is_of_a_dead_process(make, tmp_path, path, writer):
    path.write_bytes(b"x\n")
    record(writer.process, tmp_path / "pid")
    told = json.loads((tmp_path / "pid").read_text())
    (tmp_path / "pid").write_text(json.dumps({**told, "boot_id": "another"}))
    (tmp_path / "pid.exit").write_text(json.dumps({"pid": writer.pid, "start_ticks": told["start_ticks"], "code": 0}))
    assert make(pidfile=tmp_path / "pid").run() == "exited"


def test_a_pid_file_that_holds_a_number(make, tmp_path, writer):
    (tmp_path / "pid").write_text(f"{writer.pid}\n")
    writer.write(READY)
    assert make(pidfile=tmp_path / "pid").run() == "ready"


def test_a_pid_file_that_is_not_there_is_told(make, tmp_path, path):
    path.write_bytes(READY)
    wait = make(pidfile=tmp_path / "pid")
    assert wait.run() == "ready"
    assert wait.notes() == [f"There was no pid file {tmp_path}/pid, so nobody looked whether the process lives."]


def test_ready_and_then_dead_is_failed(make, writer):
    writer.write(READY)
    writer.say("exit 0")
    writer.process.wait()
    wait = make(pid=writer.pid)
    assert wait.run() == "failed"
    told = outcome.outcome("failed", wait)
    assert told["was_ready"]
    assert "was ready, and then it failed: the server process" in told["msg"]


def test_ready_and_then_terminated_is_stopped(make, writer):
    writer.write(READY)
    writer.say("kill 15")
    os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has asked how
    assert make(pid=writer.pid).run() == "stopped"


KILLED = b"/opt/vllm/start.sh: line 9: 4121 Killed                  vllm serve /srv/models/target\n"


def test_what_the_shell_says_of_a_server_that_was_ready(make, writer):
    writer.write(READY + b"INFO:     serving\n" + KILLED + b"bye\n")
    writer.say("exit 137")
    writer.process.wait()
    wait = make(pid=writer.pid)
    assert wait.run() == "failed"
    told = outcome.outcome("failed", wait)
    assert (told["was_ready"], told["cause"]["kind"], told["cause"]["number"]) == (True, "killed", 3)


def test_what_a_program_says_last_after_megabytes_of_noise(make, path, writer):
    path.write_bytes(b"(APIServer pid=1) INFO 11-30 06:49:31 [a.py:1] noise\n" * 60_000)
    writer.write(b"vllm: error: unrecognized arguments: --no-such-flag 1\n")
    writer.say("exit 2")
    writer.process.wait()
    wait = make(pid=writer.pid)
    assert wait.run() == "failed"
    assert (wait.judge.cause().kind, wait.judge.cause().number) == ("arguments", 60_001)


def test_a_job_may_end_when_it_is_done(make, writer):
    writer.write(b"[1/2] one\n[2/2] two\nBUILD COMPLETE")
    writer.say("exit 0")
    wait = make(pid=writer.pid, asked=none(ready=["^BUILD COMPLETE"], stages=[r"^(\[\d+/\d+\] .*)"]))
    assert wait.run() == "ready"
    assert [s["name"] for s in outcome.outcome("ready", wait)["stages"]] == ["[1/2] one", "[2/2] two"]


def test_a_job_that_says_done_and_ends_badly_has_failed(make, writer):
    writer.write(b"BUILD COMPLETE\n")
    writer.say("exit 4")
    writer.process.wait()
    # Nobody kept its exit code: it was our child, and we have asked for it.
    assert make(pid=writer.pid, asked=none(ready=["^BUILD COMPLETE"])).run() == "ready"


def test_the_group_of_a_failed_pattern_is_the_cause(make, path):
    path.write_bytes(b"BUILD FAILED: no space left\n")
    wait = make(
        timeout=0, asked=none(failed=[{"pattern": "^BUILD FAILED: (.*)", "kind": "disk", "hint": "Make room."}])
    )
    assert wait.run() == "failed"
    told = outcome.outcome("failed", wait)
    assert (told["cause"]["text"], told["cause"]["kind"], told["cause"]["number"]) == ("no space left", "disk", 1)
    assert told["msg"].splitlines()[0] == "The job failed."
    assert "Remedy: Make room." in told["msg"]


def test_an_own_pattern_beside_the_profile(make, path):
    path.write_bytes(b"(Worker pid=7) INFO 11-30 06:49:31 [a.py:1] my plugin gave up: no licence\n")
    own = profile({"ready": [], "failed": ["gave up: (.*)"], "ignore": [], "stages": [], "profile": "vllm"})
    wait = make(timeout=0, asked=own)
    assert wait.run() == "failed"
    assert wait.judge.cause().text == "no licence"


def test_what_is_ignored_is_not_fatal(make, path):
    path.write_bytes(log("logs/unknown-flag"))
    own = profile({"ready": [], "failed": [], "ignore": ["unrecognized arguments"], "stages": [], "profile": "vllm"})
    assert make(timeout=0, asked=own).run() == "pending"


def test_nothing_there(make):
    assert make(timeout=0).run() == "missing"
    assert make(timeout=1).run() == "missing"


def test_it_appears_late(make, path):
    wait = make()
    threading.Timer(0.3, path.write_bytes, [READY]).start()
    assert wait.run() == "ready"


def test_timeout_says_where_it_stood(make, path):
    path.write_bytes(b"INFO 11-30 06:49:31 [a.py:1] Starting to load model x\n")
    wait = make(timeout=1)
    assert wait.run() == "timeout"
    told = outcome.outcome("timeout", wait)
    assert told["msg"].startswith("The server is not ready after 1 s: still loading the weights.\n")
    assert "Starting to load model x" in told["msg"]


def test_judging_what_is_there(make, path):
    path.write_bytes(b"INFO 11-30 06:49:31 [a.py:1] Starting to load model x\n")
    assert make(timeout=0).run() == "pending"


def test_a_stall_counts_from_the_last_line_that_says_something_new(make, path):
    path.write_bytes(log("written/hangs-in-nccl"))
    wait = make(stall=1)
    done = threading.Event()

    def chatter():
        while not done.wait(0.1):
            with open(path, "ab") as f:
                f.write(log("written/hangs-in-nccl").splitlines(keepends=True)[-1])

    talking = threading.Thread(target=chatter)
    talking.start()
    verdict = wait.run()
    done.set()
    talking.join()
    assert verdict == "stalled"
    told = outcome.outcome("stalled", wait)
    assert "The server has said nothing new for 1 s (last stage: joining the workers)." in told["msg"]
    assert "NCCL_P2P_DISABLE=1" in told["msg"]


@pytest.mark.parametrize("name", ["logs/fc-shape-tp2", "logs/dies-on-first-request", "written/cuda-out-of-memory-tp2"])
def test_in_slices_it_comes_to_the_same(make, path, name):
    """Each slice is a new process on the host: only what it hands on is known to the next."""
    data = log(name)
    path.touch()
    state = None
    for cut in range(0, data.index(b"startup complete" if LABELS[name].get("ready") else b"ERROR"), 1500):
        with path.open("r+b") as f:
            f.write(data[:cut])
        wait = make(timeout=1000, slice=0, state=state)
        assert wait.run() == "pending"
        state = outcome.unpack(outcome.pack(wait.dump()))
    with path.open("r+b") as f:
        f.write(data)
    wait = make(timeout=0, state=state)
    assert wait.run() == LABELS[name]["verdict"]
    assert [wait.judge.cause().number, wait.judge.cause().kind] == LABELS[name]["cause"][:2]
    assert (wait.bytes, wait.judge.lines) == (len(data), data.count(b"\n"))


STAGE = b"(EngineCore pid=9) INFO 11-30 06:49:31 [gpu_model_runner.py:1] Starting to load model /m...\n"
SHARDS = b"Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.00s/it]"


@pytest.mark.parametrize("news", [STAGE, SHARDS], ids=["a line", "a bar, whose line has no end yet"])
def test_a_slice_ends_when_there_is_another_stage_to_show(make, path, monkeypatch, news):
    monkeypatch.setattr(waiting, "NEWS", 0.0)
    path.write_bytes(news)
    wait = make(timeout=1000, slice=1000)
    assert wait.run() == "pending"
    assert wait.progress()["stage"]


def test_a_slice_with_the_stage_of_the_one_before_lasts(make, path, monkeypatch):
    monkeypatch.setattr(waiting, "NEWS", 0.0)
    path.write_bytes(STAGE)
    wait = make(timeout=1000, slice=1000)
    wait.run()
    began = wait.elapsed
    wait = make(timeout=1000, slice=began + 0.5, elapsed=began, state=wait.dump())
    assert wait.run() == "pending"
    assert wait.elapsed >= began + 0.5


FATAL = b"(EngineCore pid=9) ERROR 11-30 06:49:31 [core.py:1512] EngineCore encountered a fatal error.\n"


def test_in_slices_a_failure_ends_the_wait_though_the_log_goes_on(make, path, monkeypatch):
    """Each slice is shorter than a failure may go unsettled, and in none is the log ever quiet."""
    monkeypatch.setattr(waiting, "UNSETTLED", 1.5)
    path.write_bytes(FATAL)
    done = threading.Event()

    def chatter():
        while not done.wait(0.05):
            with open(path, "ab") as f:
                f.write(b"still here\n")

    talking = threading.Thread(target=chatter)
    talking.start()
    verdicts, elapsed, state = ["pending"], 0.0, None
    while verdicts[-1] == "pending" and len(verdicts) < 8:
        wait = make(timeout=1000, slice=elapsed + 1, elapsed=elapsed, state=state)
        verdicts.append(wait.run())
        elapsed, state = wait.elapsed, outcome.unpack(outcome.pack(wait.dump()))
    done.set()
    talking.join()
    assert verdicts[1] == "pending"
    assert verdicts[-1] == "failed"


def test_in_slices_what_was_silent_between_them_is_settled(make, path):
    path.write_bytes(FATAL)
    wait = make(timeout=1000, slice=100, elapsed=100)
    assert wait.run() == "pending"
    wait = make(timeout=1000, slice=115, elapsed=105, state=wait.dump())
    assert wait.run() == "failed"
    assert wait.elapsed < 105 + waiting.SETTLED


def test_a_failure_that_another_launch_set_aside_has_no_time_running(make, path):
    path.write_bytes(FATAL)
    wait = make(timeout=1000, slice=100, elapsed=100)
    assert wait.run() == "pending"
    state = {**wait.dump(), "failed_at": 100.0}
    with path.open("ab") as f:
        f.write(b"(APIServer pid=2) INFO 11-30 06:49:31 [api_utils.py:286] non-default args: {}\n")
    wait = make(timeout=1000, slice=105.5, elapsed=105, state=state)
    assert wait.run() == "pending"
    assert wait.dump()["failed_at"] is None


def test_a_line_number_is_that_of_the_file(make, path):
    data = log("logs/no-window")
    path.write_bytes(data)
    cut = data.index(b"\n", 5000) + 1
    identity = os.stat(path)
    mark = {"path": str(path), "device": identity.st_dev, "inode": identity.st_ino, "offset": cut}
    wait = Wait(Follower(str(path), mark), Judge(Profile()), Process(), Waker(), Limits(0))
    assert wait.run() == "failed"
    told = outcome.outcome("failed", wait)
    assert told["cause"]["number"] == 115
    assert "server.log:115 (Worker" in told["msg"]
    assert told["bytes"] == len(data) - cut


def test_a_line_of_ten_megabytes(make, path):
    path.write_bytes(b"x" * 10_000_000 + b"\n" + READY + b"y" * 10_000_000)
    wait = make(timeout=0)
    assert wait.run() == "ready"
    assert wait.judge.ready.number == 2
    assert len(wait.scanner.rest) < 100_000


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Authorization")
        self.send_response(200 if asked == "Bearer s3cret" else 401)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_probe_where_the_log_is_quiet(make, path, server):
    path.write_bytes(log("logs/quiet"))
    probe = Probe(f"http://127.0.0.1:{server}/v1/models", "s3cret")
    wait = make(pid=os.getpid(), probe=probe)
    assert wait.run() == "ready"
    told = outcome.outcome("ready", wait)
    assert told["matched"]["text"].endswith("/v1/models answered 200")
    assert "s3cret" not in json.dumps(told)


def test_a_server_that_wants_a_key_is_up(make, path, server):
    path.write_bytes(log("logs/quiet"))
    wait = make(pid=os.getpid(), probe=Probe(f"http://127.0.0.1:{server}/v1/models"))
    assert wait.run() == "ready"
    assert wait.judge.ready.text.endswith("answered 401")


def test_the_answer_of_another_process_proves_nothing(make, writer, server):
    writer.write(log("logs/quiet"))
    wait = make(timeout=1, pid=writer.pid, probe=Probe(f"http://127.0.0.1:{server}/v1/models"))
    assert wait.run() == "timeout"


def test_nobody_answers(make, path):
    path.write_bytes(log("logs/quiet"))
    assert make(timeout=1, probe=Probe("http://127.0.0.1:1/v1/models")).run() == "timeout"


# A server whose engine is killed and that does not notice.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "open('/proc/self/comm', 'w').write('VLLM::EngineCor'); import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_an_engine_that_disappears_without_a_word(path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    try:
        engine = int(parent.stdout.readline())
        life = Process(parent.pid)
        while not life._parts:  # until the child has taken its name
            assert life.missing(life._next) == ""
        state = life.dump()
        os.kill(engine, signal.SIGKILL)
        while processes.start_ticks(engine) is not None:
            pass
        later = Process(parent.pid)
        later.load(json.loads(json.dumps(state)))
        assert later.missing(100.0) == ""
        assert later.missing(120.0) == f"VLLM::EngineCor (pid {engine})"
        assert not later.dead()
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()

"""What the recorder makes of events: stages, verdicts, what is kept and what is not."""

from __future__ import annotations

import json

import pytest

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.recorder import HIDDEN, Recorder, Result
from ansible_collections.llmops.vllm.tests.unit.report.samples import (
    BEGAN,
    CONTENT,
    CURRENT,
    GOOD,
    NEW,
    OLD,
    Story,
    one,
    third_of_five,
)


def verdicts(run):
    return {host.name: (host.batch, host.verdict) for host in run.hosts}


def test_a_rollout_that_stops_at_the_third():
    run = third_of_five()
    assert verdicts(run) == {
        "gpu1": (1, "passed"),
        "gpu2": (2, "passed"),
        "gpu3": (3, "went back"),
        "gpu4": (None, "not reached"),
        "gpu5": (None, "not reached"),
    }
    assert run.verdict == "failed"
    assert run.started == "2026-09-21T14:13:20+00:00"
    third = run.hosts[2]
    assert [(s.role, s.back, s.failed) for s in third.stages] == [
        ("host", False, False),
        ("build", False, False),
        ("models", False, False),
        ("drafter", False, False),
        ("serve", False, False),
        ("verify", False, True),
        ("serve", True, False),
        ("verify", True, False),
    ]
    assert (third.tried, third.release) == (NEW, OLD)
    assert [(m.release, m.verdict, m.back) for m in third.measurements] == [(NEW, "fail", False), (OLD, "pass", True)]
    assert (third.before.release, third.before.at, third.before.acceptance_length) == (OLD, None, 6.31)
    assert "arguments: --max-num-seqs=4 -> --max-num-seqs=8" in third.changes
    assert [f.task for f in third.failures] == ["Refuse a drafter that falls short", "Refuse to go on"]


def test_a_stage_lasts_from_its_first_task_to_its_last():
    (host,) = one().hosts
    spans = [(s.role, s.started, s.seconds) for s in host.stages]
    assert spans[1] == ("build", 1.1, 9.0)
    assert spans[4] == ("serve", 13.1, 29.0)
    assert host.stages[4].steps[0]["name"] == "reading the configuration"


def test_what_was_measured_at_the_head_counts_for_its_followers():
    story = Story(["head", "follower"])
    story.batch("head", "follower")
    story.task("follower", "vllm_verify", 1, "set_fact", {"ansible_facts": {"vllm_verify_result": GOOD}})
    (follower,) = [host for host in story.end().hosts if host.name == "follower"]
    assert follower.verdict == "passed"
    assert [measured.verdict for measured in follower.measurements] == ["pass"]


def test_what_was_only_skipped_is_no_stage():
    story = Story(["a"])
    story.batch("a")
    story.recorder.start("a", "vllm_build", story.at)
    story.at += 5
    story.task("a", "vllm_serve", 1)
    assert [stage.role for stage in story.end().hosts[0].stages] == ["serve"]


def test_refused_before_anything_was_touched():
    story = Story(["a"])
    story.batch("a")
    story.prepare("a")
    story.task("a", "vllm_serve", 1, failed="Port 1 can't be listened on.")
    story.task("a", "vllm_serve", 1, "vllm_instance_info", {"current": CURRENT, "running": OLD, "proven": True})
    story.task("a", "", 1, failed="a still serves it")
    run = story.end("a")
    assert verdicts(run) == {"a": (1, "kept")}
    assert run.hosts[0].release == OLD


def test_a_rollback_that_falls_short_too_has_failed():
    story = Story(["a"])
    story.batch("a")
    story.task("a", "vllm_verify", 1, failed="short")
    story.task("a", "vllm_verify", 1, "acceptance_probe", {"verdict": "fail"})
    assert verdicts(story.end("a")) == {"a": (1, "failed")}


def test_a_failure_that_was_rescued_is_told_and_is_no_failure_of_the_host():
    story = Story(["a"])
    story.batch("a")
    story.task("a", "vllm_serve", 1, failed="no")
    run = story.end()
    assert (run.verdict, run.hosts[0].verdict) == ("passed", "done")
    assert run.hosts[0].failures[0].message == "no"


def test_a_host_that_is_lost():
    story = Story(["a", "b"])
    story.batch("a", "b")
    story.task("a", "", 1, failed="No route to host")
    story.good("b")
    assert verdicts(story.end(unreachable=("a",))) == {"a": (1, "unreachable"), "b": (1, "passed")}


def test_the_cause_that_the_log_told():
    story = Story(["a"])
    story.batch("a")
    cause = {
        "kind": "oom",
        "text": "CUDA out of memory, hf_token=hf_abcdefghijklmnopqrst",
        "hint": "less",
        "context": ["private"],
    }
    story.task("a", "vllm_serve", 1, "log_wait", {"cause": cause}, failed="failed")
    stage = story.end("a").hosts[0].stages[0]
    assert stage.failed
    assert stage.cause == {"kind": "oom", "text": "CUDA out of memory, hf_token=********", "hint": "less"}


@pytest.mark.parametrize("secret", ["sk-THISisASECRETthatNOBODYmaySEE", "hf_abcdefghijklmnopqrst"])
def test_no_secret_is_kept(secret):
    story = Story(["a"])
    story.batch("a")
    spilt = {"id": NEW, "content": {**CONTENT, "argv": [f"--api-key={secret}"]}, "current": CURRENT}
    story.task("a", "vllm_serve", 1, "vllm_release", {**spilt, "invocation": {"module_args": {"environment": secret}}})
    story.task("a", "vllm_serve", 1, "", {"stdout": secret}, failed=f"Authorization: Bearer {secret}")
    story.task("a", "vllm_drafter", 1, "drafter_config", {"findings": [{"key": "a", "why": f"token={secret}"}]})
    text = json.dumps(story.end("a").data())
    assert secret not in text
    assert "********" in text


def test_what_is_hidden_is_said_to_be():
    recorder = Recorder("site", BEGAN)
    recorder.play("one", "Serve", ["a"], ["a"])
    recorder.start("a", "vllm_serve", BEGAN)
    recorder.end(Result("a", "Whisper", "vllm_serve", "vllm_release", None, BEGAN + 1, failed=True))
    host = recorder.finish(BEGAN + 2, ["a"], []).hosts[0]
    assert host.failures[0].message == HIDDEN
    assert host.tried is None


def test_other_plays_are_not_told_of():
    recorder = Recorder("site", BEGAN)
    recorder.play("one", "Something else", ["x"], ["x"])
    recorder.start("x", "", BEGAN)
    assert recorder.finish(BEGAN + 1, [], []) is None
    recorder.play("two", "Serve", ["a"], ["a"])
    recorder.start("a", "vllm_serve", BEGAN)
    assert [host.name for host in recorder.finish(BEGAN + 1, [], []).hosts] == ["a"]


def test_what_is_known_while_it_goes_on():
    story = Story(["a", "b", "c", "d"])
    story.batch("a")
    story.good("a")
    story.batch("b", "c")
    story.prepare("b")
    story.task("c", "vllm_host", 1, failed="No such user.")
    story.recorder.start("b", "vllm_serve", story.at, "Start it")
    story.recorder.skip("b")
    story.task("b", "vllm_serve", 1, "vllm_release", {"id": NEW, "content": CONTENT, "current": CURRENT})
    story.recorder.start("b", "vllm_serve", story.at, "Wait with sk-THISisASECRETthatNOBODYmaySEE")
    run = story.recorder.so_far(story.at + 20)
    assert run.verdict == "unfinished"
    assert verdicts(run) == {
        "a": (1, "passed"),
        "b": (2, "unfinished"),
        "c": (2, "failed"),
        "d": (None, "not reached"),
    }
    assert run.hosts[1].doing == "Wait with ********"
    assert run.hosts[1].stages[-1].seconds == 21.0, "it is still at that"
    assert [host.doing for host in run.hosts if host.name != "b"] == [None] * 3
    # What was told in between leaves no trace in the end.
    story.serve("b", CONTENT)
    story.task("b", "vllm_verify", 4, "acceptance_probe", GOOD)
    story.batch("d")
    story.task("d", "", 1, failed="No route to host")
    run = story.end("c", unreachable=("d",))
    assert run.verdict == "failed"
    assert verdicts(run) == {"a": (1, "passed"), "b": (2, "passed"), "c": (2, "failed"), "d": (3, "unreachable")}
    assert run.hosts[1].doing is None


def test_a_host_that_is_just_being_put_right_has_not_failed():
    story = Story(["a"])
    story.batch("a")
    story.task("a", "vllm_serve", 1, failed="no")
    assert verdicts(story.recorder.so_far(story.at)) == {"a": (1, "failed")}
    story.recorder.start("a", "", story.at, "Keep what went wrong")
    assert verdicts(story.recorder.so_far(story.at)) == {"a": (1, "unfinished")}
    story.recorder.end(Result("a", "Reach it", "", "", {}, story.at, failed=True, lost=True))
    assert verdicts(story.recorder.so_far(story.at)) == {"a": (1, "unreachable")}


def test_those_of_the_batch_that_were_well_but_not_done_when_the_play_was_ended():
    """Ansible takes all hosts out of the play when one has failed, and counts only that one."""
    story = Story(["a", "b", "c"])
    story.batch("a", "b", "c")
    story.good("a")
    story.prepare("b")
    story.task("c", "vllm_host", 1, failed="No such user.")
    story.recorder.cut()
    assert verdicts(story.end("c")) == {"a": (1, "passed"), "b": (1, "unfinished"), "c": (1, "failed")}

"""Which host of a deployment failed first, by what became of the launch on all of them."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.filter.deployment_failure import KINDS, deployment_failure
from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import CAUSES, ENDS

READY = {"log": {"verdict": "ready", "failed": False, "msg": "The server is ready."}}
ELSEWHERE = {"log": {"verdict": "elsewhere", "msg": "The wait ended, as gpu2 failed: The server failed."}}
EXITED = {"log": {"verdict": "exited", "msg": "The server process (pid 7) was killed by signal 9 (SIGKILL)\nLog: /l"}}
TIMEOUT = {"log": {"verdict": "timeout", "msg": "The server is not ready after 600 s."}}
REFUSED = {"process": {"failed": True, "msg": "Port 29501 is occupied.\nFree it."}, "log": {"skipped": True}}
NO_TOKEN = {**READY, "token": {"failed": False, "msg": "No answer within 60 s."}}


def failed(text, kind="memory"):
    """As log_wait tells it, in a task that says failed_when: false."""
    cause = {"kind": kind, "text": f"{text}\nand more"}
    return {"log": {"verdict": "failed", "failed": False, "msg": f"The server failed.\nCause: {text}", "cause": cause}}


REAL = failed("OutOfMemoryError: CUDA out of memory")
LEFT = failed("RuntimeError: Connection closed by peer", "peer")


@pytest.mark.parametrize("good", [READY, {}, {"log": {}}, {"log": {"verdict": "pending"}}, {"log": {"skipped": True}}])
def test_nothing_failed(good):
    assert deployment_failure({"gpu1": READY, "gpu2": good}) == ""
    assert deployment_failure({"gpu1": good, "gpu2": good}, []) == ""


def test_the_true_cause_before_one_that_only_says_that_a_peer_left():
    assert deployment_failure({"gpu1": LEFT, "gpu2": REAL}).splitlines() == [
        "gpu2 (rank 1): The server failed.",
        "Cause: OutOfMemoryError: CUDA out of memory",
        "gpu1 (rank 0) only says that another one left: RuntimeError: Connection closed by peer",
    ]


def test_who_ended_as_another_failed_is_left_out():
    assert deployment_failure({"gpu1": ELSEWHERE, "gpu2": EXITED}) == f"gpu2 (rank 1): {EXITED['log']['msg']}"


def test_but_is_better_than_nothing():
    assert deployment_failure({"gpu1": ELSEWHERE, "gpu2": {}}) == f"gpu1 (rank 0): {ELSEWHERE['log']['msg']}"


def test_a_cause_that_only_says_that_a_peer_left_alone():
    first, cause, ignorance = deployment_failure({"gpu1": LEFT, "gpu2": ELSEWHERE, "gpu3": READY}).splitlines()
    assert first == "gpu1 (rank 0): The server failed."
    assert "Connection closed by peer" in cause
    assert ignorance.startswith("So gpu1 only says that another one left, and the logs of gpu2, gpu3 know no cause.")
    assert "the log of gpu2 knows no cause." in deployment_failure({"gpu1": LEFT, "gpu2": {}})


def test_all_only_say_that_another_one_left():
    lines = deployment_failure({"gpu1": LEFT, "gpu2": LEFT}).splitlines()
    assert lines[0] == "gpu1 (rank 0): The server failed."
    assert lines[2].startswith("gpu2 (rank 1) only says that another one left: ")


# From the nearest to a root. A host that is lost has said nothing.
ORDER = {
    "cause": REAL,
    "exited": EXITED,
    "refused": REFUSED,
    "lost": {},
    "network": failed("RuntimeError: Gloo connectFullMesh failed", "network"),
    "timeout": TIMEOUT,
    "token": NO_TOKEN,
    "left": LEFT,
    "elsewhere": ELSEWHERE,
}


@pytest.mark.parametrize("nearer", list(ORDER)[:-1])
def test_the_order(nearer):
    names = list(ORDER)
    for other in names[names.index(nearer) + 1 :]:
        lost = [host for host, name in (("one", other), ("two", nearer)) if name == "lost"]
        for order in (("one", "two"), ("two", "one")):
            told = {"one": ORDER[other], "two": ORDER[nearer]}
            said = deployment_failure({host: told[host] for host in order}, lost)
            assert said.startswith(f"two (rank {order.index('two')}): ")
            assert ("one (rank" in said) == (other != "elsewhere")


@pytest.mark.parametrize("kind", ENDS)
def test_how_a_process_ended_is_less_than_why(kind):
    killed = failed("Worker proc VllmWorker-1 died unexpectedly (exit code: -9)", kind)
    assert deployment_failure({"gpu1": killed, "gpu2": REAL}).startswith("gpu2 ")
    assert deployment_failure({"gpu1": LEFT, "gpu2": killed}).startswith("gpu2 ")


def test_the_kinds_that_count_less_are_kinds():
    assert set(KINDS) <= {pattern.kind for pattern in CAUSES}


def test_a_lost_host_is_said_even_if_its_task_could_not_tell():
    assert deployment_failure({"gpu1": NO_TOKEN, "gpu2": READY}, ["gpu2"]).splitlines() == [
        "gpu2 (rank 1): Ansible does not reach this host any more, or it failed before. See above. What runs there was not stopped: it ends "
        "when stop.yml, or the next run, reaches the host.",
        "gpu1 (rank 0) failed as well: No answer within 60 s.",
    ]
    unreachable = {"log": {"unreachable": True, "failed": True, "msg": "Connection timed out"}}
    assert deployment_failure({"gpu1": READY, "gpu2": unreachable}).startswith("gpu2 (rank 1): Ansible does not reach")


@pytest.mark.parametrize("failed", [True, False])
def test_a_wait_that_could_not_even_begin(failed):
    log = {"failed": failed, "msg": "/ is not a regular file."}
    assert deployment_failure({"gpu1": READY, "gpu2": {"log": log}}) == "gpu2 (rank 1): / is not a regular file."


def test_what_says_nothing_is_a_failure_all_the_same():
    assert (
        deployment_failure({"gpu1": {"process": {"failed": True}}}) == "gpu1 (rank 0): It failed, and does not say why."
    )


def test_a_lost_host_that_is_none_of_these_is_none_of_them():
    assert deployment_failure({"gpu1": READY}, ["other"]) == ""

"""rollout.yml over a fleet of five real hosts with the real engine: what reaches all, what stops, and what an interruption leaves."""

from __future__ import annotations

import json
import signal

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, CLONE, RIGHT, Serving, served

pytestmark = [pytest.mark.engine, pytest.mark.long]
CURRENT = "/opt/vllm/instances/default/current"
# As an operator may believe it to be right: what is stated is not doubted, so only the measurement can tell.
WRONG = {**RIGHT, "dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1, 2]}}


@pytest.fixture(scope="module")
def serving(fleets) -> Serving:
    """All five serve the first release."""
    serving = Serving.on(fleets, "/opt/vllm", "/srv/models", systemd=3, plain=2)
    serving.play("rollout")
    assert len({release(host) for host in serving.fleet.hosts}) == 1
    assert all(map(proven, serving.fleet.hosts))
    return serving


def release(host) -> str:
    return host.run(f"readlink {CURRENT}").stdout.strip()


def proven(host) -> bool:
    return json.loads(host.run(f"cat {CURRENT}/evidence.json").stdout)["verdict"] == "pass"


def launched(host) -> bool:
    """Whether what runs there is what `current` points at."""
    return any(
        f"{release(host)}/launch.py" in host.run(f"cat /proc/{pid}/environ", check=False).stdout for pid in served(host)
    )


def reported() -> dict[str, str]:
    """The verdicts that the report of the last run tells, of the run and of each host."""
    last = max((CLONE / ".demo/reports").glob("rollout-*.json"), key=lambda path: path.stat().st_mtime_ns)
    run = json.loads(last.read_text())
    return {"": run["verdict"], **{host["name"]: host["verdict"] for host in run["hosts"]}}


def test_no_batch_follows_one_that_lost_a_host(serving, tmp_path):
    """Ansible itself would go on: one of two that can't be reached is no failed batch to it."""
    lost, *later = serving.fleet.hosts[1:]
    inventory = tmp_path / "lost.json"
    inventory.write_text(json.dumps({"all": {"hosts": {lost.name: {"ansible_port": 1}}}}))
    said = serving.play("rollout", "-i", str(inventory), well=False, vllm_rollout_batches="2,100%")
    assert not any(f"[{host.name}]" in said for host in later)
    assert list(reported().values()) == ["failed", "passed", "unreachable", *["not reached"] * 3]


def test_no_batch_follows_one_in_which_a_host_has_no_way_back(serving, tmp_path):
    """Nothing ever passed in its instance. Ansible itself would go on: what fails on the way back, within the block, counts for nothing."""
    first, second, *later = serving.fleet.hosts
    inventory = tmp_path / "fresh.json"
    inventory.write_text(json.dumps({"all": {"hosts": {second.name: {"instance": "fresh", "args": {"port": 1}}}}}))
    hooks = {}
    for hook in ("drain", "undrain"):
        hooks[f"vllm_rollout_{hook}"] = str(tmp_path / f"{hook}.yml")
        (tmp_path / f"{hook}.yml").write_text(json.dumps([{"shell": f"echo {hook}ed >> /root/service"}]))
    said = serving.play(
        "rollout",
        *("-i", str(inventory)),
        well=False,
        **hooks,
        vllm_instance="{{ instance | default('default') }}",
        vllm_serve_args="{{ args | default(" + json.dumps(ARGS) + ") }}",
        vllm_rollout_batches=[2, "100%"],
    )
    assert "There is nothing to go back to: /opt/vllm/instances/fresh/previous names no release" in " ".join(
        said.split()
    )
    assert not any(f"[{host.name}]" in said for host in later)
    assert list(reported().values()) == ["failed", "passed", "failed", *["not reached"] * 3]
    assert [host.run("cat /root/service").stdout.split() for host in (first, second)] == [
        ["drained", "undrained"],
        ["drained"],
    ], "what doesn't serve stays out of service"


def test_a_canary_with_a_wrong_drafter_goes_back_and_no_other_is_touched(serving):
    canary, *others = serving.fleet.hosts
    before, pids = release(canary), [served(host).keys() for host in others]
    said = " ".join(serving.play("rollout", well=False, vllm_drafter_values=WRONG).split())
    assert f"{canary.name} is back at {before.rpartition('/')[2]}, as before. The new release failed:" in said
    assert release(canary) == before
    assert proven(canary)
    assert launched(canary)
    assert [served(host).keys() for host in others] == pids


def test_a_wrong_drafter_on_the_third_stops_the_rest(serving, tmp_path):
    """Only the third host is given the wrong values. The second, which is in its batch, stays with the new release."""
    hosts = serving.fleet.hosts
    third, later = hosts[2], hosts[3:]
    before, pids = release(third), [served(host).keys() for host in later]
    inventory = tmp_path / "third.yml"
    wrong = {"all": {"hosts": {third.name: {"values": WRONG}}}}
    inventory.write_text(json.dumps(wrong))
    serving.play(
        "rollout",
        *("-i", str(inventory)),
        well=False,
        vllm_rollout_batches=[1, 2, "100%"],
        vllm_drafter_values="{{ values | default(" + json.dumps(RIGHT) + ") }}",
        vllm_serve_env={"ANOTHER": "release"},
    )
    assert release(hosts[0]) == release(hosts[1]) != before
    assert release(third) == before
    assert proven(third)
    assert launched(third)
    assert [release(host) for host in later] == [before, before]
    assert list(reported().values()) == ["failed", "passed", "passed", "went back", "not reached", "not reached"]
    assert [served(host).keys() for host in later] == pids


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed controller"])
def test_what_was_interrupted_is_run_again(serving, end):
    first = serving.fleet.hosts[0]
    before = release(first)
    asked = {"vllm_serve_env": {"INTERRUPTED": end.name}}
    run = serving.start("rollout", **asked)
    wait_for("the canary is on its way", lambda: release(first) != before, 120)
    run.send_signal(end)
    run.communicate()
    assert run.returncode != 0
    assert list(reported().values()) == ["unfinished", "unfinished", *["not reached"] * 4]
    serving.play("rollout", **asked)
    assert set(reported().values()) == {"passed"}
    assert len({release(host) for host in serving.fleet.hosts}) == 1
    assert release(first) != before
    assert all(map(proven, serving.fleet.hosts))
    assert all(map(launched, serving.fleet.hosts))

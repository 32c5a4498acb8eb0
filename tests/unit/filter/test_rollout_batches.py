"""A rollout in batches that cut no deployment in two, and are Ansible's own where there is none."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleFilterError
from ansible.executor.playbook_executor import PlaybookExecutor

from ansible_collections.llmops.vllm.plugins.filter.rollout_batches import rollout_batches

FLEET = [f"gpu{number}" for number in range(1, 9)]
PAIR = {"gpu1": "large", "gpu2": "large"}


def by_ansible(serial, hosts):
    """How a play is divided by ansible-core itself."""
    inventory = SimpleNamespace(get_hosts=lambda pattern, order: list(hosts))
    play = SimpleNamespace(hosts="all", order=None, serial=serial)
    batches = PlaybookExecutor._get_serialized_batches(SimpleNamespace(_inventory=inventory), play)
    return [list(batch) for batch in batches]


@pytest.mark.parametrize(
    "wished",
    [
        [1, "25%", "100%"],
        ["1", "2", "1"],
        [3],
        ["30%"],
        ["1%"],
        ["0%"],
        [2, 0],
        [0],
        [-1],
        ["100%"],
        [100],
        [1, "120%"],
        [],
    ],
)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 20, 101])
def test_without_deployments_they_are_those_of_ansible(wished, count):
    hosts = [f"gpu{number}" for number in range(count)]
    batches = rollout_batches(wished, hosts, {})
    assert batches == [len(batch) for batch in by_ansible(wished, hosts)]
    assert batches == [len(batch) for batch in by_ansible(batches, hosts)]


@pytest.mark.parametrize(
    "wished", [[1, "25%", "100%"], "1,25%,100%", "1, 25%, 100%", ["1,25%", "100%"], ("1", "25%", "100%")]
)
def test_however_they_are_given(wished):
    assert rollout_batches(wished, FLEET, {}) == [1, 2, 5]


@pytest.mark.parametrize("wished", [2, "2"])
def test_one_number_is_a_batch(wished):
    assert rollout_batches(wished, FLEET, {}) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("wished", "deployments", "batches"),
    [
        ([1, "25%", "100%"], PAIR, [2, 2, 4]),
        ([1, "25%", "100%"], {"gpu2": "large", "gpu3": "large"}, [1, 2, 5]),
        ([1, "25%", "100%"], {"gpu3": "large", "gpu4": "large"}, [1, 3, 4]),
        ([1], {name: "large" for name in FLEET}, [8]),
        # Not side by side: what is between comes along.
        ([1, 1], {"gpu1": "large", "gpu4": "large"}, [4, 1, 1, 1, 1]),
        # What comes along begins another one.
        ([1, 1], {"gpu1": "a", "gpu3": "a", "gpu2": "b", "gpu5": "b", "gpu4": "c", "gpu6": "c"}, [6, 1, 1]),
        ([1], {"gpu1": "a", "gpu2": "a", "gpu3": "b", "gpu4": "b"}, [2, 2, 1, 1, 1, 1]),
        # No deployment is no deployment that they share.
        ([1, "100%"], dict.fromkeys(FLEET, ""), [1, 7]),
        ([1, "100%"], dict.fromkeys(FLEET), [1, 7]),
        # The other half is not in this play.
        ([1, "100%"], {"gpu1": "large", "elsewhere": "large"}, [1, 7]),
    ],
)  # fmt: skip
def test_no_deployment_is_cut(wished, deployments, batches):
    assert rollout_batches(wished, FLEET, deployments) == batches


def test_whatever_the_deployments_each_is_in_one_batch():
    chance = random.Random(10)
    for _round in range(300):
        hosts = [f"gpu{number}" for number in range(chance.randint(1, 30))]
        deployments = {name: chance.choice(["", "a", "b", "c", "d"]) for name in hosts}
        wished = [chance.choice([1, 2, 5, "10%", "30%"]) for _batch in range(chance.randint(1, 3))]
        batches = by_ansible(rollout_batches(wished, hosts, deployments), hosts)
        assert [name for batch in batches for name in batch] == hosts
        for name in ("a", "b", "c", "d"):
            assert sum(name in [deployments[host] for host in batch] for batch in batches) <= 1


def test_where_no_host_is_known_it_is_left_to_ansible():
    assert rollout_batches("1,25%,100%", [], {}) == ["1", "25%", "100%"]


@pytest.mark.parametrize("wished", ["", "some", "1;2", ["12.5%"], [1.5], [None], [True], ["1", ""], {"first": 1}])
def test_what_is_no_batch_is_refused(wished):
    with pytest.raises(AnsibleFilterError, match=r"is no batch of hosts\. .* set vllm_rollout_batches to 1,25%,100%"):
        rollout_batches(wished, FLEET, {})

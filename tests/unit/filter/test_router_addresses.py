"""Where a router reaches a replica, by what the inventory says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.llmops.vllm.plugins.filter import router_addresses
from ansible_collections.llmops.vllm.plugins.filter.router_addresses import router_addresses as addresses

CLONE = Path(__file__).parents[3]
ROUTER = {"ansible_host": "192.0.2.10"}


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"ansible_host": "192.0.2.11", "vllm_serve_host": "192.0.2.11"}, "192.0.2.11:8000"),
        ({"ansible_host": "192.0.2.11", "vllm_serve_host": "0.0.0.0", "vllm_serve_port": 8001}, "192.0.2.11:8001"),
        ({"ansible_host": "192.0.2.11", "vllm_serve_host": "::"}, "192.0.2.11:8000"),
        ({"vllm_serve_host": "0.0.0.0"}, "gpu1:8000"),
        ({"ansible_host": "2001:db8::11", "vllm_serve_host": "::"}, "[2001:db8::11]:8000"),
        ({"ansible_host": "192.0.2.11", "vllm_serve_host": "10.0.0.11"}, "10.0.0.11:8000"),
        ({"vllm_serve_host": "0.0.0.0", "vllm_router_address": "10.0.0.11"}, "10.0.0.11:8000"),
        ({"vllm_serve_host": "0.0.0.0", "vllm_router_address": ""}, "gpu1:8000"),
        ({"ansible_host": "192.0.2.10"}, "127.0.0.1:8000"),
        ({"ansible_host": "192.0.2.10", "vllm_serve_host": "0.0.0.0"}, "127.0.0.1:8000"),
    ],
)
def test_where_it_is(given, address):
    assert addresses(["gpu1"], {"gpu1": given, "router1": ROUTER}, "router1") == {"gpu1": address}


@pytest.mark.parametrize("given", [{}, {"vllm_serve_host": "localhost"}, {"vllm_serve_host": "::1"}])
def test_what_no_router_reaches_is_refused(given):
    with pytest.raises(AnsibleFilterError, match=r"The server of gpu1 listens on .* only.*Set vllm_serve_host"):
        addresses(["gpu1"], {"gpu1": {"ansible_host": "192.0.2.11", **given}, "router1": ROUTER}, "router1")


BIG = {"vllm_serve_host": "0.0.0.0", "vllm_deployment": "big", "groups": {"big": ["gpu1", "gpu2"]}}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (BIG, ["gpu1", "gpu3"]),
        ({**BIG, "vllm_deployment_head": "gpu2"}, ["gpu2", "gpu3"]),
        ({**BIG, "vllm_deployment_head": ""}, ["gpu1", "gpu3"]),
        ({**BIG, "vllm_deployment": ""}, ["gpu1", "gpu2", "gpu3"]),
        ({**BIG, "groups": {}}, ["gpu1", "gpu2", "gpu3"]),  # which vllm_deployment refuses
    ],
)
def test_only_the_head_of_a_deployment_has_one(given, left):
    hostvars = {"gpu1": given, "gpu2": given, "gpu3": {"vllm_serve_host": "0.0.0.0"}, "router1": ROUTER}
    assert list(addresses(["gpu1", "gpu2", "gpu3"], hostvars, "router1")) == left


def test_a_follower_may_listen_nowhere():
    hostvars = {"gpu1": BIG, "gpu2": {**BIG, "vllm_serve_host": "127.0.0.1"}, "router1": ROUTER}
    assert addresses(["gpu1", "gpu2"], hostvars, "router1") == {"gpu1": "gpu1:8000"}


def test_the_defaults_are_those_of_the_role():
    defaults = yaml.safe_load((CLONE / "roles/vllm_serve/defaults/main.yml").read_text())
    assert (defaults["vllm_serve_host"], defaults["vllm_serve_port"]) == (router_addresses.HOST, router_addresses.PORT)

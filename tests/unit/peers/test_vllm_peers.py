"""vllm_peers by its module, on this machine: which address is its own, who holds a port, what a model is known by."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._peers import contents, interfaces
from ansible_collections.llmops.vllm.plugins.module_utils._peers.aside import Aside
from ansible_collections.llmops.vllm.plugins.module_utils._peers.interfaces import Carried, PlaceError
from ansible_collections.llmops.vllm.plugins.modules import vllm_peers

COLLECTIONS = str(Path(interfaces.__file__).parents[6])
MODULE = Path(__file__).parents[3] / "plugins/modules/vllm_peers.py"
# How a module is handed its arguments differs between the versions of ansible-core.
PROFILED = f"""
import runpy, sys
from ansible.module_utils import basic
if hasattr(basic, "_ANSIBLE_PROFILE"):
    basic._ANSIBLE_PROFILE = "legacy"
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
runpy.run_path("{MODULE}", run_name="__main__")
"""
LISTENING = """
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)
"""
OURS = [
    Carried("lo", "127.0.0.1"),
    Carried("eth0", "10.0.0.1"),
    Carried("eth0", "10.0.0.7"),
    Carried("ib0", "10.1.0.1"),
    Carried("lo", "::1"),
    Carried("eth0", "fd00::1"),
    Carried("eth0", "fe80::1"),
]
TABLE = "eth0 has 10.0.0.1 and 10.0.0.7 and fd00::1, ib0 has 10.1.0.1, lo has 127.0.0.1 and ::1"


@pytest.fixture
def peers(tmp_path):
    def call(check=False, **params):
        args = {"name": "big", "rank": 0, "timeout": 5, **params, "_ansible_check_mode": check}
        done = subprocess.run(
            [sys.executable, "-c", PROFILED],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_remote_tmp": str(tmp_path)}}),
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


def gpus(*addresses):
    return [{"name": f"gpu{n}", "address": address} for n, address in enumerate(addresses, 1)]


@pytest.fixture
def reachable():
    """An address of this machine that is no loopback one."""
    found = [each for each in interfaces.carried() if not (each.ip.is_loopback or each.ip.is_link_local)]
    if not found:
        pytest.skip("this machine has no network")
    return found[0]


def choose(address, interface=None, loopback=False, resolved=()):
    return interfaces.choose("gpu1", address, resolved or [address], interface, OURS, loopback)


def test_the_kernel_tells_of_all_addresses():
    found = interfaces.carried()
    assert Carried("lo", "127.0.0.1") in found
    assert {each.interface for each in found} <= {name for _index, name in socket.if_nameindex()}


@pytest.mark.parametrize(
    ("family", "attributes", "address"),
    [
        # Between two points the first is the other end's.
        (socket.AF_INET, [(1, "10.0.0.2"), (2, "10.0.0.1")], "10.0.0.1"),
        (socket.AF_INET6, [(1, "fd00::1")], "fd00::1"),
    ],
)
def test_what_the_kernel_tells_of_an_address(family, attributes, address):
    body = struct.pack("=BBBBI", family, 32, 0, 0, socket.if_nametoindex("lo"))
    for kind, value in attributes:
        packed = socket.inet_pton(family, value)
        body += struct.pack("=HH", 4 + len(packed), kind) + packed
    assert list(interfaces._carried(body)) == [Carried("lo", address)]


def test_a_secondary_address_counts():
    """In a network of its own, that ends with the process."""
    add = "ip link set lo up && ip address add 198.18.77.1/24 dev lo && ip address add 198.18.77.2/24 dev lo"
    alone = ["unshare", "--net", "sh", "-c", f'{add} || exit 77; exec "$0" -c "$1"', sys.executable]
    look = f"from {interfaces.__name__} import carried; print([each.address for each in carried()])"
    try:
        done = subprocess.run(
            [*alone, look], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([COLLECTIONS, *sys.path])}, check=False
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("this machine has no unshare")
    if "unshare" in done.stderr or done.returncode == 77:
        pytest.skip("this machine gives out no networks")
    assert "'198.18.77.1', '198.18.77.2'" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"address": "10.0.0.7"}, Carried("eth0", "10.0.0.7")),
        ({"address": "fd00::1", "interface": "eth0"}, Carried("eth0", "fd00::1")),
        ({"address": "FD00:0::1", "resolved": ["fd00::1"]}, Carried("eth0", "fd00::1")),
        ({"address": "gpu1", "resolved": ["127.0.1.1", "10.1.0.1"]}, Carried("ib0", "10.1.0.1")),
        ({"address": "gpu1", "resolved": ["10.0.0.1", "10.1.0.1"], "interface": "ib0"}, Carried("ib0", "10.1.0.1")),
        ({"address": "127.0.0.9", "loopback": True}, Carried("lo", "127.0.0.9")),
        ({"address": "::1", "loopback": True}, Carried("lo", "::1")),
    ],
)
def test_an_address_of_this_host(given, found):
    assert choose(**given) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"address": "10.9.9.9"}, f"10.9.9.9 is no address of gpu1 itself: {TABLE}. Set vllm_deployment_address to"),
        ({"address": "gpu1", "resolved": ["10.9.9.9"]}, "gpu1 (10.9.9.9) is no address of gpu1 itself"),
        ({"address": "10.0.0.1", "interface": "eth9"}, f"gpu1 has no interface eth9 with an address: {TABLE}. Set vllm_deployment_interface"),
        ({"address": "10.0.0.1", "interface": "ib0"}, f"ib0 of gpu1 does not have 10.0.0.1: {TABLE}. Set vllm_deployment_interface to eth0, or"),
        ({"address": "127.0.0.1"}, f"127.0.0.1 of gpu1 is a loopback address, where no other host reaches it: {TABLE}. Set vllm_deployment_address"),
        ({"address": "gpu1", "resolved": ["127.0.1.1"]}, "mend /etc/hosts, where gpu1 may have it."),
        ({"address": "fe80::1"}, "fe80::1 of gpu1 holds on one link only"),
    ],
)  # fmt: skip
def test_an_address_that_will_not_do(given, said):
    with pytest.raises(PlaceError) as refused:
        choose(**given)
    assert said in str(refused.value)


def test_a_host_of_many_containers_is_told_of_in_brief():
    assert interfaces.table([Carried(f"veth{n}", f"10.0.1.{n}") for n in range(40)]).endswith(
        "veth15 has 10.0.1.15, 24 more interfaces have others"
    )


def test_a_name_that_nobody_knows():
    assert interfaces.resolve("10.0.0.1") == ["10.0.0.1"]
    for name in ("a..b", "x" * 300):
        with pytest.raises(OSError, match=r"."):
            interfaces.resolve(name)


def test_nobody_waits_for_a_name_server_for_ever():
    ended = threading.Event()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        Aside(lambda: ended.wait(60)).result(0.05)
    ended.set()


def test_who_holds_the_port(tmp_path):
    script = f"{tmp_path}/one/releases/r1/launch.py"
    with subprocess.Popen(
        [sys.executable, "-c", LISTENING], stdout=subprocess.PIPE, env={**os.environ, "LLMOPS_VLLM_LAUNCH": script}
    ) as server:
        port = int(server.stdout.readline())
        assert vllm_peers.owner(port, f"{tmp_path}/one") == ""
        assert vllm_peers.owner(port, f"{tmp_path}/two").startswith(f"pid {server.pid} (")
        assert vllm_peers.owner(port, None).startswith(f"pid {server.pid} (")
        server.kill()
    assert vllm_peers.owner(1, None) == "a process that this user may not see"


@pytest.fixture
def model(tmp_path):
    """As a cache has it: a snapshot of links."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    for directory in (blobs, snapshot / "sub"):
        directory.mkdir(parents=True)
    (blobs / "c").write_text('{"layers": 5}')
    (blobs / "w").write_bytes(b"w" * 1000)
    (snapshot / "config.json").symlink_to(blobs / "c")
    (snapshot / "sub/model.safetensors").symlink_to(blobs / "w")
    return snapshot


def test_the_same_model_by_other_means(model, tmp_path):
    """Copied, and with what is not of the model."""
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    (copy / "config.json").write_text('{"layers": 5}')
    (copy / "sub/model.safetensors").write_bytes(b"v" * 1000)  # the bytes of weights are not read
    (copy / ".snapshot.json").write_text('{"time": 1}')
    (copy / ".cache").mkdir()
    (copy / ".cache/x.json").touch()
    (tmp_path / "link").symlink_to(copy)
    assert (
        contents.fingerprint(str(model)) == contents.fingerprint(str(copy)) == contents.fingerprint(f"{tmp_path}/link/")
    )


def change_config(model):
    (model / "config.json").resolve().write_text('{"layers": 6}')


def truncate(model):
    (model / "sub/model.safetensors").resolve().write_bytes(b"w" * 999)


def rename(model):
    (model / "sub/model.safetensors").rename(model / "sub/model-1.safetensors")


def move(model):
    (model / "sub/model.safetensors").rename(model / "model.safetensors")


def add(model):
    (model / "x").touch()


def lose(model):
    (model / "sub/model.safetensors").resolve().unlink()


@pytest.mark.parametrize("change", [change_config, truncate, rename, move, add, lose])
def test_another_model(model, change):
    before = contents.fingerprint(str(model))
    change(model)
    assert contents.fingerprint(str(model)) not in (before, None)


def test_a_model_with_links_in_a_circle(model):
    before = contents.fingerprint(str(model))
    for name in ("a", "b", "sub/c"):
        (model / name).symlink_to(model)
    assert contents.fingerprint(str(model)) == before


def test_a_pipe_is_not_waited_for(model):
    os.mkfifo(model / "pipe.json")
    assert contents.fingerprint(str(model))


def test_a_json_file_is_read_up_to_a_mib(model):
    def of(content):
        (model / "tokenizer.json").write_bytes(content)
        return contents.fingerprint(str(model))

    mib = b" " * 2**20
    assert of(mib + b"1") == of(mib + b"2") != of(b"1" + mib)


def test_a_model_of_one_file_and_none(model):
    assert contents.fingerprint(str(model / "config.json"))
    assert contents.fingerprint(str(model / "gone")) is None


def test_alone(peers, model):
    found = peers(peers=gpus("127.0.0.1"), models=[str(model), "/gone"])
    assert (found["address"], found["interface"], found["changed"], found["faults"]) == ("127.0.0.1", "lo", False, [])
    assert found["models"] == {str(model): contents.fingerprint(str(model)), "/gone": None}


def test_check_mode_meets_nobody(peers, reachable):
    began = time.monotonic()
    found = peers(check=True, peers=gpus(reachable.address, "192.0.2.99"))
    assert (found["address"], found["interface"]) == (reachable.address, reachable.interface)
    assert (found["faults"], found["peers"], found["clock_offset"]) == ([], [], None)
    assert time.monotonic() - began < 5  # the timeout


def test_a_head_that_nobody_comes_to(peers, reachable, tmp_path):
    with socket.create_server((reachable.address, 0)) as s:
        port = s.getsockname()[1]
    found = peers(
        peers=gpus(reachable.address, "192.0.2.99"), port=port, interface=reachable.interface, models=[str(tmp_path)]
    )
    assert found["failed"]
    assert found["msg"] == "\n".join([*found["faults"], "Nothing was stopped or started."])
    assert f"gpu2 never came to {reachable.address}:{port} within " in found["msg"]
    assert (found["address"], found["clock_offset"]) == (reachable.address, 0.0)
    assert found["peers"] == [{"name": "gpu2", "seconds": None}]
    assert found["models"][str(tmp_path)]


def test_a_follower_whose_head_has_no_address(peers, reachable):
    found = peers(rank=1, peers=gpus("gpu1.invalid", reachable.address))
    assert found["failed"]
    assert "gpu2 can't resolve gpu1.invalid, the address of gpu1: " in found["msg"]
    assert found["address"] == reachable.address


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rank": 2, "peers": gpus("10.0.0.1", "10.0.0.2")}, "rank 2 is none of 2 peers"),
        ({"peers": gpus(*(f"10.0.0.{n}" for n in range(257)))}, "256 are the most"),
        ({"peers": gpus("10.0.0.1"), "port": 65535}, "port 65535 is none, or the last."),
        ({"peers": gpus("10.0.0.1"), "timeout": 4}, "timeout 4 is too short."),
        ({"peers": gpus("10.0.0.1") * 2}, "peers has a host twice: gpu1, gpu1."),
        ({"rank": 2, "peers": gpus("10.0.0.1", "10.0.0.2", "10.0.0.1")}, "gpu1 and gpu3 have the same address, 10.0.0.1."),
        ({"peers": gpus("127.0.0.1", "10.0.0.2")}, "127.0.0.1 of gpu1 is a loopback address"),
        ({"peers": gpus("192.0.2.99", "10.0.0.2")}, "192.0.2.99 is no address of gpu1 itself"),
        ({"peers": gpus("gpu1.invalid", "10.0.0.2")}, "gpu1 can't resolve its own address gpu1.invalid: "),
    ],
)  # fmt: skip
def test_refused(peers, given, said):
    found = peers(**given)
    assert found["failed"]
    assert said in found["msg"]
    assert len(found["faults"]) == 1

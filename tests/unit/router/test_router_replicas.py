"""router_replicas by its module, on this machine: what it writes, whom it asks, what it waits for, with a stand-in for nginx."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._router import replicas
from ansible_collections.llmops.vllm.plugins.module_utils._router.replicas import Replica, RouterError
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for

MODULE = Path(__file__).parents[3] / "plugins/modules/router_replicas.py"
STANDIN = Path(__file__).with_name("standin.py")
CONFIG = "include replicas/*.conf;\n"


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Where a server says that it is well."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def home(tmp_path) -> Path:
    for name in ("replicas", "run"):
        (tmp_path / "router" / name).mkdir(parents=True)
    (tmp_path / "router/nginx.conf").touch()
    return tmp_path / "router"


@pytest.fixture
def nginx(home) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["nginx: master process", STANDIN, "-c", home / "nginx.conf"], executable=sys.executable
    ) as master:
        wait_for("it runs", (home / "run/nginx.pid").exists)
        yield master
        (home / "over").touch()


@pytest.fixture
def call(home, tmp_path) -> Callable[..., dict]:
    program = tmp_path / "nginx"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} "$@"\n')
    program.chmod(0o755)

    def call(check: bool = False, **params: object) -> dict:
        args = {"directory": str(home), "program": str(program), "_ansible_check_mode": check, **params}
        code = (
            "import runpy, sys\nfrom ansible.module_utils import basic\n"
            "if hasattr(basic, '_ANSIBLE_PROFILE'): basic._ANSIBLE_PROFILE = 'legacy'\n"
            f"basic._ANSIBLE_ARGS = sys.stdin.buffer.read()\nrunpy.run_path({str(MODULE)!r}, run_name='__main__')"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return call


def files(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*.conf")}


def test_laid_once(call, home):
    given = {"config": CONFIG, "replicas": {"gpu1": "192.0.2.11:8000", "gpu2": "192.0.2.12:8000"}}
    assert call(check=True, **given)["changed"] and files(home) == {"nginx.conf": ""}
    first = call(**given)
    assert first["changed"] and not first["running"]
    assert files(home)["nginx.conf"] == CONFIG
    assert files(home)["replicas/gpu1.conf"].splitlines()[1].startswith("server 192.0.2.11:8000 ")
    assert not call(**given)["changed"]
    fewer = call(config=CONFIG, replicas={"gpu2": "192.0.2.12:8000"})
    assert fewer["changed"] and sorted(files(home)) == ["nginx.conf", "replicas/gpu2.conf"]


def test_who_is_drained_stays_so_until_it_is_back(call, home, address):
    given = {"config": CONFIG, "replicas": {"gpu1": address, "gpu2": address}}
    call(**given)
    assert call(drain="gpu1")["replicas"]["gpu1"]["drained"]
    assert not call(drain="gpu1")["changed"]
    assert " down;" in files(home)["replicas/gpu1.conf"]
    assert not call(**given)["changed"]
    assert not call(undrain="gpu1", check=True)["replicas"]["gpu1"]["drained"]
    assert call(undrain="gpu1", address=address)["changed"]
    assert not call(undrain="gpu1")["changed"]
    assert " down;" not in files(home)["replicas/gpu1.conf"]


def test_of_two_that_are_drained_at_once_one_stays(call, address):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": address})
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda name: call(drain=name), ["gpu1", "gpu2"]))
    assert sorted(one.get("failed", False) for one in told) == [False, True]
    said = next(one["msg"] for one in told if one.get("failed"))
    assert "no other replica would be left that answers" in said and "vllm_rollout_batches" in said


def test_another_that_is_dead_is_none(call, address):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": "127.0.0.1:1"})
    assert "gpu2 at 127.0.0.1:1: [Errno 111] Connection refused" in call(drain="gpu1")["msg"]
    assert call(drain="gpu2")["changed"], "nothing is lost with it"
    assert "gpu2 stays out of service" in call(undrain="gpu2")["msg"]


@pytest.mark.parametrize("order", ["drain", "undrain"])
def test_who_is_not_known_as_the_inventory_has_it_is_let_be(call, home, address, order):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": address})
    before = files(home)
    said = call(**{order: "gpu9"})["msg"]
    assert f"The router in {home} does not know gpu9 (it knows gpu1, gpu2). Run router.yml first" in said
    said = call(**{order: "gpu1"}, address="192.0.2.11:8000")["msg"]
    assert f"reaches gpu1 at {address}, and the inventory says 192.0.2.11:8000. Run router.yml first" in said
    assert files(home) == before


def test_where_there_is_no_router_yet(call, tmp_path):
    home = tmp_path / "typo"
    said = call(directory=str(home), drain="gpu1")["msg"]
    assert f"The router in {home} does not know gpu1 (it knows nobody). Run router.yml first" in said
    checked = call(directory=str(home), drain="gpu1", check=True)
    assert not checked["changed"] and said in str(checked["warnings"])
    assert call(directory=str(home), config=CONFIG, replicas={}, check=True)["changed"] and not home.exists()
    assert call(directory=str(home), config=CONFIG, replicas={})["changed"] and files(home)["nginx.conf"] == CONFIG


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("place", [".", "replicas", "run", "nginx.conf", "replicas/gpu1.conf", ".."])
def test_what_another_user_can_change_is_not_believed(call, home, place):
    given = {"config": CONFIG, "replicas": {"gpu1": "192.0.2.11:8000", "gpu2": "192.0.2.12:8000"}}
    call(**given)
    os.chown(home / place, 65534, -1)
    before = files(home)
    for order in ({"config": "load_module /tmp/x.so;", "replicas": {}}, {"drain": "gpu1"}):
        said = call(**order)["msg"]
        assert "can be changed by nobody, and root would run nginx by it. Connect as nobody" in said
    assert files(home) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_no_link_of_another_user_is_followed(call, home):
    (home / "elsewhere").mkdir()
    (home / "elsewhere/precious").touch()
    (home / "replicas").rmdir()
    (home / "replicas").symlink_to(home / "elsewhere")
    os.chown(home / "replicas", 65534, -1, follow_symlinks=False)
    assert f"{home}/replicas can be changed by nobody" in call(config=CONFIG, replicas={})["msg"]
    assert (home / "elsewhere/precious").exists()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("gpu1", "h:1; } evil"),
        ("gpu1", "h:1;\nevil"),
        ("gpu1", "h:x"),
        ("gpu1", "h"),
        ("gpu1", "[::1"),
        ("gpu1", "h:1\n"),
        ("gpu1\nevil;", "h:1"),
        ("gpu1\r", "h:1"),
    ],
)
def test_what_is_no_address_or_name_never_reaches_nginx(call, home, name, address):
    said = call(config=CONFIG, replicas={name: address})["msg"]
    assert f"{address!r} of {name!r} can't be given to nginx" in said
    assert files(home) == {"nginx.conf": ""}


@pytest.mark.parametrize("bad", [{"config": "bad"}, {"replicas": {"gpu1": "bad:8000"}}])
def test_what_nginx_refuses_is_not_laid(call, home, bad):
    given = {"config": CONFIG, "replicas": {"gpu1": "192.0.2.11:8000"}}
    call(**given)
    before = files(home)
    said = call(**{**given, **bad})["msg"]
    assert "nginx refuses the configuration" in said and f'unknown directive "bad" in {home}/' in said
    assert files(home) == before and not (home / "candidate").exists()


def test_what_a_person_wrote_is_named(call, home):
    call(config=CONFIG, replicas={"gpu1": "192.0.2.11:8000"})
    (home / "replicas/gpu1.conf").write_text("server 192.0.2.11:8000;\n")
    assert f"{home}/replicas/gpu1.conf is no file of a replica any more" in call(drain="gpu1")["msg"]


def test_it_waits_for_what_was_taken_before(call, home, nginx, address):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": address})
    (home / "busy").touch()
    said = call(drain="gpu1", timeout=0.5)["msg"]
    assert "has not finished those that it took before, after 0.5 s" in said and "vllm_router_drain_timeout" in said
    with concurrent.futures.ThreadPoolExecutor() as pool:
        drained = pool.submit(call, drain="gpu1")
        assert not concurrent.futures.wait([drained], 2).done
        back = call(undrain="gpu2")
        assert not back.get("failed"), "others have their turn meanwhile"
        (home / "busy").unlink()
        assert drained.result(20)["running"]


def test_where_nginx_does_not_follow_all_is_as_before(call, home, nginx):
    before = files(home)
    (home / "deaf").touch()
    said = call(config=CONFIG, replicas={"gpu1": "192.0.2.11:8000"})["msg"]
    assert f"nginx (pid {nginx.pid}) did not begin to work by {home}/nginx.conf within 10 s" in said
    assert files(home) == before


def test_another_address_of_the_same_port_is_taken_up(call, home, nginx, address):
    configs = [f"{CONFIG}http {{\n  listen {at}:8080;\n}}\n" for at in ("127.0.0.1", "0.0.0.0")]
    for config in configs:
        assert call(config=config, replicas={"gpu1": address, "gpu2": address})["running"]
        assert files(home)["nginx.conf"] == config
    assert call(drain="gpu1")["changed"]


def test_a_path_may_be_written_in_other_ways(call, home, nginx, address):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": address})
    (home / "busy").touch()
    said = call(directory=f"{home}/../{home.name}/", drain="gpu1", timeout=0.5)
    assert "has not finished those that it took before" in said["msg"]


def test_an_nginx_by_another_file_is_none_to_pass_over(call, home, nginx, address, tmp_path):
    call(config=CONFIG, replicas={"gpu1": address, "gpu2": address})
    other = shutil.copytree(home, tmp_path / "other")
    said = call(directory=str(other), drain="gpu1")["msg"]
    assert f"{other}/run/nginx.pid names pid {nginx.pid}, which calls itself 'nginx: master process" in said
    assert files(other) == files(home)


@pytest.mark.parametrize("address", ["a..b:80", "127.0.0.1:99999", "h:x"])
def test_an_address_that_nobody_has_is_no_traceback(address):
    assert replicas.silence(address)


def test_an_answer_by_drips_is_none():
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection = listening.accept()[0]
        with connection, contextlib.suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\n" + 100 * b"x":
                connection.send(bytes([byte]))
                over.wait(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=[listening], daemon=True).start()
        begun = time.monotonic()
        assert replicas.silence(f"127.0.0.1:{listening.getsockname()[1]}", 0.5) == "no answer within 0.5 s"
        assert time.monotonic() - begun < 2
        over.set()


def test_names_become_files():
    assert Replica("gpu1/a:b", "x:1").file == "gpu1-a-b.conf"
    assert Replica.read("", Replica("gpu1", "[::1]:1", True).text) == Replica("gpu1", "[::1]:1", True)
    with pytest.raises(RouterError, match="would be one file"):
        replicas.wanted({"a/b": "x:1", "a-b": "x:2"}, [])

"""router_replicas by its module, on this machine: what it writes, whom it asks, what it waits for, with a stand-in for nginx."""

from __future__ import annotations

import concurrent.futures
import http.server
import json
import os
import subprocess
import sys
import threading
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
    return tmp_path / "router"


@pytest.fixture
def nginx(home) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["nginx: master process", STANDIN, home / "nginx.conf"], executable=sys.executable) as master:
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
    assert call(check=True, **given)["changed"] and files(home) == {}
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
    assert not call(undrain="gpu1", address=address, check=True)["replicas"]["gpu1"]["drained"]
    assert call(undrain="gpu1", address=address)["changed"]
    assert not call(undrain="gpu1", address=address)["changed"]
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
    assert "gpu2 stays out of service" in call(undrain="gpu2", address="127.0.0.1:1")["msg"]


def test_who_is_not_known_is_not_drained_and_joins(call, address):
    call(config=CONFIG, replicas={"gpu1": address})
    assert not call(drain="gpu9")["changed"]
    assert set(call(undrain="gpu9", address=address)["replicas"]) == {"gpu1", "gpu9"}


def test_where_there_is_no_router_yet(call, home):
    (home / "replicas").rmdir()
    assert not call(drain="gpu1")["changed"]
    assert call(config=CONFIG, replicas={}, check=True)["changed"]
    assert "Make it first" in call(config=CONFIG, replicas={})["msg"]


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
        back = call(undrain="gpu2", address=address)
        assert not back.get("failed"), "others have their turn meanwhile"
        (home / "busy").unlink()
        assert drained.result(20)["running"]


def test_an_nginx_that_does_not_follow_is_told(call, home, nginx, monkeypatch):
    (home / "deaf").touch()
    said = call(config=CONFIG, replicas={"gpu1": "192.0.2.11:8000"})["msg"]
    assert f"nginx (pid {nginx.pid}) did not begin to work by {home}/nginx.conf within 10 s" in said


def test_names_become_files():
    assert Replica("gpu1/a:b", "x:1").file == "gpu1-a-b.conf"
    assert Replica.read("", Replica("gpu1", "[::1]:1", True).text) == Replica("gpu1", "[::1]:1", True)
    with pytest.raises(RouterError, match="would be one file"):
        replicas.wanted({"a/b": "x:1", "a-b": "x:2"}, [])

"""Two replicas behind two routers, under a steady load through both: what a rollout, a way back and a death cost their clients.

Once with the double and once with the real engine. One replica and one router are hosts with systemd, the others have nothing but sshd.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet import double
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, PAIR, Serving, changed, lay, served

HOME, MODELS, ROUTER = "/opt/vllm", "/srv/models", "/opt/vllm/router"
KEY = "canary-7be31d"
PORT = 8080
KINDS = ("whole", "streamed", "slowly sent")
"""How a client asks. One that sends slowly may have been taken by a worker of nginx long before a replica is chosen."""


@dataclasses.dataclass
class Load:
    """Clients of each kind at each router, each with one request after the other. What became of every request: nothing if all is well."""

    routers: list[Host]
    told: list[str] = dataclasses.field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        return [said for said in self.told if said]

    def client(self, router: Host, kind: str, over: threading.Event) -> None:
        connection = http.client.HTTPConnection(router.address, PORT, timeout=120)
        while not over.wait(0.1):
            try:
                self.told.append(ask(connection, kind))
            except (OSError, http.client.HTTPException, ValueError) as e:
                self.told.append(f"{kind}: {type(e).__name__}: {e}")
                connection.close()

    @classmethod
    @contextlib.contextmanager
    def on(cls, routers: list[Host]) -> Iterator[Load]:
        load, over = cls(routers), threading.Event()
        threads = [
            threading.Thread(target=load.client, args=(router, kind, over)) for router in routers for kind in KINDS
        ]
        for thread in threads:
            thread.start()
        try:
            wait_for("every client is answered", lambda: len(load.told) >= 3 * len(threads), 60)
            yield load
        finally:
            over.set()
            for thread in threads:
                thread.join()
        print(f"{len(load.told)} requests, {len(load.lost)} of them lost", *sorted(set(load.lost)), sep="\n")


def ask(connection: http.client.HTTPConnection, kind: str) -> str:
    """What is wrong with the answer."""
    question = {"role": "user", "content": "Recite chapter 3"}
    body = json.dumps(
        {"model": "tiny", "messages": [question], "max_tokens": 400, "temperature": 0, "stream": kind == "streamed"}
    ).encode()
    connection.putrequest("POST", "/v1/chat/completions")
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Authorization": f"Bearer {KEY}",
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body[:20])
    time.sleep(1 if kind == "slowly sent" else 0)
    connection.send(body[20:])
    response = connection.getresponse()
    text = response.read().decode()
    if response.status != 200:
        return f"{kind}: {response.status} {text[:200]}"
    if kind != "streamed":
        return "" if json.loads(text)["choices"][0]["finish_reason"] else f"{kind}: {text}"
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    ended = any(choice.get("finish_reason") for event in events[:-1] for choice in json.loads(event)["choices"])
    return "" if ended and events[-1] == "[DONE]" else f"{kind}: it broke off: {text[-200:]}"


def status(site: Site, path: str, **headers: str) -> int:
    """What the first router says to one request."""
    with contextlib.closing(http.client.HTTPConnection(site.routers[0].address, PORT, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


@dataclasses.dataclass(frozen=True)
class Site:
    serving: Serving
    place: Path
    replicas: list[Host]
    routers: list[Host]

    def play(self, playbook: str, *options: str, well: bool | None = True, **more: object) -> str:
        inventory = self.place / "routers.json"
        groups = {"vllm_router": {"hosts": {host.name: {} for host in self.routers}}}
        inventory.write_text(json.dumps({"all": {"children": groups}}))
        more = {
            "vllm_serve_host": "{{ ansible_host }}",
            "vllm_serve_api_key": KEY,
            "vllm_router_host": "{{ ansible_host }}",
            "vllm_router_port": PORT,
            **more,
        }
        with self.serving.start(playbook, "-i", str(inventory), *options, **more) as run:
            said = run.communicate()[0]
        print(said)
        assert well is None or (run.returncode == 0) == well, f"{playbook} ended with {run.returncode}"
        assert KEY not in said
        return said

    def in_service(self) -> set[tuple[str, str]]:
        """Routers and replicas."""
        return {
            (router.name, line.split()[1])
            for router in self.routers
            for line in router.run(f"grep -L ' down;' {ROUTER}/replicas/*.conf | xargs head -qn1").stdout.splitlines()
        }

    @property
    def all(self) -> set[tuple[str, str]]:
        return {(router.name, replica.name) for router in self.routers for replica in self.replicas}

    def releases(self) -> list[str]:
        return [host.run(f"readlink {HOME}/instances/default/current").stdout.strip() for host in self.replicas]


def with_double(fleets: Callable[..., object]) -> Serving:
    fleet = fleets(systemd=2, plain=2, binds=[PAIR])
    for host in fleet.hosts:
        double.install(host)
        lay(host, MODELS)
        host.write(f"{double.FLAGS}/pause", "0.2")
    return Serving(fleet, double.VENV, HOME, MODELS)


def with_engine(fleets: Callable[..., object]) -> Serving:
    return Serving.on(fleets, HOME, MODELS, systemd=2, plain=2)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(with_double, id="double"),
        pytest.param(with_engine, id="engine", marks=[pytest.mark.engine, pytest.mark.long]),
    ],
)
def site(request, fleets, tmp_path_factory) -> Site:
    """Both serve, and both routers know them."""
    serving = request.param(fleets)
    one, router, two, other = serving.fleet.hosts
    site = Site(serving, tmp_path_factory.mktemp("site"), [one, two], [router, other])
    site.play("router")
    site.play("rollout")
    assert site.in_service() == site.all
    return site


def test_a_second_run_changes_nothing(site):
    masters = [host.run(f"cat {ROUTER}/run/nginx.pid").stdout for host in site.routers]
    assert changed(site.play("router")) == 0
    assert changed(site.play("router", "--check")) == 0
    assert [host.run(f"cat {ROUTER}/run/nginx.pid").stdout for host in site.routers] == masters
    assert [host.run("systemctl is-active nginx-vllm-router", check=False).stdout for host in site.routers] == [
        "active\n",
        "",
    ]


def test_no_request_is_lost_in_a_rollout(site):
    before = site.releases()
    with Load.on(site.routers) as load:
        site.play("rollout", vllm_serve_args={**ARGS, "max-num-seqs": 3})
    assert not set(site.releases()) & set(before)
    assert site.in_service() == site.all
    assert load.lost == []
    assert len(load.told) > 100


def test_none_is_lost_on_the_way_back(site):
    before = site.releases()
    with Load.on(site.routers) as load:
        said = site.play(
            "rollout",
            well=False,
            vllm_serve_args={**ARGS, "max-num-seqs": 2},
            vllm_verify_acceptance_length="{{ 7 if (vllm_serve_result.release | basename) in proven else 9 }}",
            proven=[release.rpartition("/")[2] for release in before],
        )
    assert f"{site.replicas[0].name} is back at" in " ".join(said.split())
    assert site.releases() == before
    assert site.in_service() == site.all
    assert load.lost == []


def test_the_last_one_is_not_drained(site):
    """Both at once: whoever comes second stays as it is."""
    before = site.releases()
    with Load.on(site.routers) as load:
        said = site.play("rollout", well=False, vllm_rollout_batches=[2], vllm_serve_args={**ARGS, "max-num-seqs": 2})
    assert "no other replica would be left that answers" in " ".join(said.split())
    assert sum(a != b for a, b in zip(before, site.releases())) == 1
    assert site.in_service() == site.all
    assert load.lost == []


def test_who_was_left_drained_is_brought_back(site):
    """As an interrupted rollout leaves it. Whoever sets up the routers again does not know why that is so."""
    name = site.replicas[0].name
    for router in site.routers:
        router.run(f"sed -i 's/;$/ down;/' {ROUTER}/replicas/{name}.conf")
    site.play("router")
    assert {replica for _router, replica in site.in_service()} == {site.replicas[1].name}
    site.play("rollout", "--check", vllm_serve_args={**ARGS, "max-num-seqs": 2})
    assert {replica for _router, replica in site.in_service()} == {site.replicas[1].name}
    site.play("rollout", vllm_serve_args={**ARGS, "max-num-seqs": 2})
    assert site.in_service() == site.all


def test_what_nginx_refuses_changes_nothing(site):
    look = f"cat {ROUTER}/nginx.conf {ROUTER}/replicas/*; ls {ROUTER}"
    before = [router.run(look).stdout for router in site.routers]
    with Load.on(site.routers) as load:
        said = site.play("router", well=False, vllm_router_address="no-such-host.invalid")
        site.play("router", well=False, vllm_router_max_body_size="much")
        time.sleep(1)
    assert "host not found in upstream" in " ".join(said.split())
    assert [router.run(look).stdout for router in site.routers] == before
    assert load.lost == []


def test_the_key_is_seen_nowhere_on_a_router(site):
    for router in site.routers:
        held = router.run(f"grep -rl {KEY} /opt /etc /var/log /tmp /root 2>/dev/null || true").stdout
        assert held == ""
        assert KEY not in router.run("ps -eo args").stdout
        assert KEY not in router.run("journalctl --no-pager 2>/dev/null || true").stdout
    assert status(site, "/v1/models") == 401


def test_what_the_key_does_not_guard_is_not_routed(site):
    assert status(site, "/health") == 200
    for path in ("/metrics", "/invocations", "/tokenize", "/metrics/../metrics", "/v1/../metrics"):
        assert status(site, path, Authorization=f"Bearer {KEY}") == 404
    assert status(site, "/metrics/../v1/models", Authorization=f"Bearer {KEY}") == 200, "as /v1/models"


def test_another_address_is_taken_up_without_a_restart(site):
    for host in ("0.0.0.0", "{{ ansible_host }}"):
        site.play("router", vllm_router_host=host)
        assert status(site, "/health") == 200
        assert changed(site.play("router", vllm_router_host=host)) == 0


def test_without_draining_some_are_lost(site, tmp_path):
    """So the tests above could have failed."""
    (tmp_path / "nothing.yml").write_text("[]\n")
    hooks = {f"vllm_rollout_{hook}": str(tmp_path / "nothing.yml") for hook in ("drain", "undrain")}
    with Load.on(site.routers) as load:
        site.play("rollout", well=None, vllm_serve_args={**ARGS, "max-num-seqs": 5}, **hooks)
    assert load.lost != []


def test_who_takes_no_connection_is_passed_over(site):
    """On a host without systemd it stays dead."""
    dead = site.replicas[1]
    dead.run("kill -KILL " + " ".join(map(str, served(dead))))
    with Load.on(site.routers) as load:
        time.sleep(5)
    assert load.lost == []

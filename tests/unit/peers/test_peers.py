"""Hosts that meet: real sockets at loopback addresses, a thread for each rank, and what may stand between them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import socket
import threading
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._peers import meeting, problems, talking
from ansible_collections.llmops.vllm.plugins.module_utils._peers.follower import Follower
from ansible_collections.llmops.vllm.plugins.module_utils._peers.head import Head
from ansible_collections.llmops.vllm.plugins.module_utils._peers.meeting import Deployment, Peer, Place
from ansible_collections.llmops.vllm.plugins.module_utils._peers.talking import Talk, TalkError

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")

TIMEOUT = 6.0
WAITED = 3  # seconds, as half of it is kept for trying each other
HEAD = "127.0.0.2"
OPEN = (
    "Open all TCP ports between the hosts of big, since vLLM, Gloo and NCCL use any, or choose addresses of a network where they are, "
    "by vllm_deployment_address."
)


class Awaited(Head):
    """Says when one can come."""

    def __init__(self, *args, **options):
        self.listening = threading.Event()
        super().__init__(*args, **options)

    def _gather(self, mine):
        self.listening.set()
        super()._gather(mine)


@pytest.fixture
def port():
    """Free, and so is the next one."""
    while True:
        with socket.create_server((HEAD, 0)) as s:
            found = s.getsockname()[1]
            with contextlib.suppress(OSError), socket.create_server((HEAD, found + 1)):
                return found


@pytest.fixture
def rank(port):
    def make(number, of=3, kind=None, timeout=TIMEOUT, **options):
        peers = tuple(Peer(f"gpu{n + 1}", f"127.0.0.{n + 2}") for n in range(of))
        kind = kind or (Follower if number else Awaited)
        return kind(Deployment("big", number, peers, port), peers[number].address, timeout, **options)

    return make


def meet(*members):
    """The outcomes of ranks that are there at the same time, none of which took longer than it may."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        outcomes = [each.result() for each in [pool.submit(member.meet) for member in members]]
    assert time.monotonic() - began < TIMEOUT
    return outcomes


@contextlib.contextmanager
def meeting_of(*members):
    """While they meet; gives what will be their outcomes."""
    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        yield [pool.submit(member.meet) for member in members]


def soon():
    return time.monotonic() + TIMEOUT


def come(port, number=1, **said):
    """To the head as a rank does, up to its answer."""
    talk = talking.call(HEAD, port, soon())
    assert talk.hear(soon())["rank"] == 0
    hello = {"magic": meeting.MAGIC, "deployment": "big", "rank": number, "place": ["127.0.0.3", 9], "left": TIMEOUT}
    talk.say(soon(), **{**hello, **said})
    return talk


def at(place, **options):
    """A follower that tells another place than its own."""

    class Elsewhere(Follower):
        def _introduce(self, talk, port):
            self.address = place[0]
            super()._introduce(talk, place[1])

    return Elsewhere


def test_all_is_well(rank):
    outcomes = meet(*(rank(number, 4) for number in range(4)))
    assert [outcome.faults for outcome in outcomes] == [[]] * 4
    assert [sorted(outcome.seconds) for outcome in outcomes] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert outcomes[0].offset == 0
    assert all(abs(outcome.offset) < 1 for outcome in outcomes)


def test_all_is_well_with_ipv6(port):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    peers = (Peer("gpu1", "::1"), Peer("gpu2", "::1"))
    kinds = (Head, Follower)
    outcomes = meet(*(kind(Deployment("big", n, peers, port), "::1", TIMEOUT) for n, kind in enumerate(kinds)))
    assert [(outcome.faults, len(outcome.seconds)) for outcome in outcomes] == [([], 1), ([], 1)]


def test_one_never_comes(rank, port):
    head, third = meet(rank(0), rank(2))
    assert head.faults == [f"gpu2 never came to {HEAD}:{port} within {WAITED} s. Its own message says why."]
    assert third.faults == []
    assert (list(head.seconds), list(third.seconds)) == ([2], [0])


def test_two_never_come(rank, port):
    (head,) = meet(rank(0))
    assert head.faults == [f"gpu2 and gpu3 never came to {HEAD}:{port} within {WAITED} s. Their own messages say why."]


def test_the_head_is_not_there(rank, port):
    second, third = meet(rank(1), rank(2))
    assert second.faults == [
        f"gpu2 could not reach gpu1 within {WAITED} s, at {HEAD}:{port} and {HEAD}:{port + 1}: nobody listens, or a firewall rejects it. "
        f"If gpu1 has a message of its own, that says why; if not, o{OPEN[1:]}"
    ]
    assert third.faults == [second.faults[0].replace("gpu2", "gpu3")]
    assert second.offset is None


def test_the_head_comes_later(rank):
    refused = threading.Event()

    class Early(Follower):
        def _come(self, port):
            with contextlib.suppress(TalkError):
                talking.call(*self.candidates[0], soon())
                raise AssertionError("the head is there already")
            refused.set()
            return super()._come(port)

    with meeting_of(rank(1, 2, Early)) as (second,):
        assert refused.wait(TIMEOUT)
        (head,) = meet(rank(0, 2))
    assert head.faults == second.result().faults == []


def test_a_firewall_rejects(rank):
    """Nobody listens where the second says that it does: both ends are told, the others' connections are not blamed."""
    with socket.create_server(("127.0.0.3", 0)) as s:
        closed = s.getsockname()[:2]
    head, second, third = meet(rank(0), rank(1, kind=at(closed)), rank(2))
    how = "it was refused, so a firewall probably rejects it"
    place = f"gpu2 at 127.0.0.3:{closed[1]}"
    assert head.faults == [f"gpu1 could not reach {place}: {how}. {OPEN}"]
    assert second.faults == [f"gpu1 and gpu3 could not reach {place}: {how}. {OPEN}"]
    assert third.faults == [f"gpu3 could not reach {place}: {how}. {OPEN}"]
    assert (sorted(head.seconds), sorted(second.seconds), sorted(third.seconds)) == ([2], [0, 2], [0])


def test_a_firewall_drops(rank):
    """As the kernel does where the queue of a listener is full."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.3", 0), backlog=0))
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect(full.getsockname())
            except OSError:
                break
        head, second = meet(rank(0, 2), rank(1, 2, at(full.getsockname()[:2])))
    told = f"gpu1 could not reach gpu2 at 127.0.0.3:{full_port(head)}: it timed out, so a firewall probably drops it. {OPEN}"
    assert head.faults == second.faults == [told]


def full_port(outcome):
    return outcome.faults[0].split(":")[1]


@pytest.mark.parametrize("patience", [TIMEOUT, 0])
def test_large_packets_get_lost(rank, patience):
    """The greeting comes through, and nothing after it. Either end may be the first to have waited long enough."""
    ended = threading.Event()

    def greet(talk):
        talk.say(soon(), magic=meeting.MAGIC, deployment="big", rank=1)
        ended.wait(patience)

    with talking.Listener("127.0.0.3", 0, greet) as listener:
        head, second = meet(rank(0, 2), rank(1, 2, at(("127.0.0.3", listener.port))))
        ended.set()
    assert head.faults == second.faults
    assert "it was connected and got no answer, so larger packets probably get lost" in head.faults[0]
    assert head.faults[0].endswith("Give all interfaces and switches on the way the same MTU.")


@pytest.mark.parametrize("said", [{"SSH": "2.0"}, {"magic": meeting.MAGIC, "deployment": "big", "rank": 0}])
def test_another_host_has_that_address_too(rank, said):
    def answer(talk):
        for words in (said, {"padding": ""}):
            talk.say(soon(), **words)
        talk.hear(soon())

    with talking.Listener("127.0.0.3", 0, answer) as listener:
        head, _second = meet(rank(0, 2), rank(1, 2, at(("127.0.0.3", listener.port))))
    assert (
        "it was answered by something else, so another host probably has that address too. Give each" in head.faults[0]
    )


def test_a_stranger_holds_the_port(rank, port):
    """That is said, and the rest is looked at all the same. It is sent nothing."""
    with socket.create_server((HEAD, port)) as stranger:
        owners = {port: "pid 7 (python3 -m http.server)"}
        head, second = meet(rank(0, 2, owner=owners.get), rank(1, 2))
        connection, _address = stranger.accept()
        with connection:
            assert connection.recv(100) == b""
    assert head.faults == [
        f"Port {port} of gpu1, where the ranks of big meet, is held by pid 7 (python3 -m http.server). Stop that, or set "
        "vllm_deployment_port to another port, for the whole group."
    ]
    assert second.faults == []
    assert list(second.seconds) == [0]


def test_the_running_server_holds_the_port(rank, port):
    with socket.create_server((HEAD, port)):
        head, second = meet(rank(0, 2, owner=lambda port: ""), rank(1, 2))
    assert head.faults == second.faults == []


def test_a_stranger_holds_the_next_port(rank, port):
    """Which is of no importance unless the first one is held too."""
    with socket.create_server((HEAD, port + 1)):
        head, second = meet(rank(0, 2), rank(1, 2))
        assert head.faults == second.faults == []
        with socket.create_server((HEAD, port)):
            head, second = meet(rank(0, 2, owner={port: "", port + 1: "pid 7 (sshd)"}.get), rank(1, 2))
    assert len(head.faults) == 1
    assert f"Port {port + 1} of gpu1, where the ranks of big meet, is held by pid 7 (sshd)." in head.faults[0]
    assert f"at {HEAD}:{port} and {HEAD}:{port + 1}: something else listens." in second.faults[0]


def test_two_servers_of_the_deployment_hold_both_ports(rank, port):
    with socket.create_server((HEAD, port)), socket.create_server((HEAD, port + 1)):
        (head,) = meet(rank(0, 2, owner=lambda port: ""))
    assert f"Ports {port} and {port + 1} of gpu1 are both held by the server that runs" in head.faults[0]


def test_an_earlier_run_holds_the_port():
    big = Deployment("big", 0, (Peer("gpu1", HEAD), Peer("gpu2", "127.0.0.3")), 29501)
    said = problems.held(big, 29501, "pid 7 (python3 /root/.ansible/tmp/AnsiballZ_vllm_peers.py)")
    assert said.endswith("An earlier run has left it, and it ends by itself within its timeout: run this again then.")


WELL = {"magic": meeting.MAGIC, "deployment": "big", "rank": 1, "place": ["127.0.0.3", 9], "left": 4}


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\xff\n",
        b"x" * (1 << 20),
        b"[" * 30000 + b"\n",
        b"[1]\n",
        *(
            json.dumps({**WELL, **wrong}).encode() + b"\n"
            for wrong in (
                {"magic": "HTTP"}, {"deployment": "small"}, {"rank": 0}, {"rank": 3}, {"rank": -1}, {"rank": True}, {"rank": "1"},
                {"rank": 1.5}, {"rank": [1]}, {"left": float("nan")}, {"left": -1}, {"left": 10**400}, {"left": None}, {"place": None},
                {"place": ["example.org", 9]}, {"place": ["127.0.0.3", 0]}, {"place": ["127.0.0.3", 65536]}, {"place": ["127.0.0.3", 9, 9]},
            )
        ),
    ],
)  # fmt: skip
def test_garbage_takes_nobody_s_place(rank, port, garbage):
    head = rank(0, 2)
    with meeting_of(head) as (first,):
        assert head.listening.wait(TIMEOUT)
        with socket.create_connection((HEAD, port)) as stranger:
            with contextlib.suppress(ConnectionError):  # it is let go before it has said all
                stranger.sendall(garbage)
                if garbage:
                    while stranger.recv(1 << 16):
                        pass
            assert head.seats == {}
            (second,) = meet(rank(1, 2))
    assert first.result().faults == second.faults == []


def test_garbage_at_the_ports_of_all(rank):
    """While each tries each."""

    class Attacked(Awaited):
        def try_all(self, until):
            self.strangers = [socket.create_connection(place) for place in self.places for _each in range(20)]
            for stranger in self.strangers:
                stranger.sendall(b"\0" * 100)
            super().try_all(until)

    head = rank(0, kind=Attacked)
    outcomes = meet(head, rank(1), rank(2))
    for stranger in head.strangers:
        stranger.close()
    assert [outcome.faults for outcome in outcomes] == [[]] * 3


class Coming(Follower):
    came = threading.Event()

    def _introduce(self, talk, port):
        super()._introduce(talk, port)
        self.came.set()


def test_who_comes_again_is_the_same(rank, port):
    """A connection that was lost, and a new one of the same rank."""
    head = rank(0)
    with meeting_of(head) as (first,):
        assert head.listening.wait(TIMEOUT)
        with come(port) as lost:
            assert "received" in lost.hear(soon())
        with meeting_of(rank(1, kind=Coming)) as (second,):
            assert Coming.came.wait(TIMEOUT)
            (third,) = meet(rank(2))
    assert first.result().faults == second.result().faults == third.faults == []


def test_who_is_lost_on_the_way(rank, port):
    """What can't be reached of it has no other cause, and is not told."""
    head = rank(0)
    with meeting_of(head, rank(2)) as (first, third):
        assert head.listening.wait(TIMEOUT)
        with come(port) as lost:
            lost.hear(soon())
            assert len(lost.hear(soon())["places"]) == 3
    assert first.result().faults == [
        "gpu2 came to gpu1 and was lost before all had tried each other. Its own message says why."
    ]
    assert third.result().faults == []


def test_who_comes_too_late(rank, port):
    said = []

    class Called(Awaited):
        def try_all(self, until):
            with come(port, 1) as late:
                said.append(late.hear(soon()))
            super().try_all(until)

    meet(rank(0, kind=Called), rank(2))
    assert said == [{"late": True}]
    told = problems.unreachable(rank(1).deployment, {Place(HEAD, port): problems.LATE}, 22)
    assert told.startswith(
        "gpu2 came to gpu1 when that waited no longer. All 3 hosts of big have to be looked at at once"
    )


def test_what_a_late_one_says(rank, port):
    """Though the head is gone by the time that it gives up."""
    told = threading.Event()

    def answer(talk):
        talk.say(soon(), magic=meeting.MAGIC, deployment="big", rank=0)
        talk.hear(soon())
        talk.say(soon(), late=True)
        told.set()

    with meeting_of(rank(1, 2)) as (second,), talking.Listener(HEAD, port, answer):
        assert told.wait(TIMEOUT)
    assert "gpu2 came to gpu1 when that waited no longer" in second.result().faults[0]


def test_the_head_is_lost_on_the_way(rank, port):
    def leave(talk):
        talk.say(soon(), magic=meeting.MAGIC, deployment="big", rank=0)
        talk.hear(soon())
        talk.say(soon(), received=time.time(), sent=time.time())

    with talking.Listener(HEAD, port, leave):
        (second,) = meet(rank(1, 2))
    assert second.faults == [
        "gpu2 was left alone by gpu1 before all had tried each other. The message of gpu1 says why."
    ]


@pytest.mark.parametrize(
    ("ahead", "told"), [(100.0, "100.0 s ahead of"), (-6.5, "6.5 s behind"), (4.0, None), (-4.0, None)]
)
def test_clocks(rank, ahead, told):
    head, second = meet(rank(0, 2, clock=lambda: 1e9), rank(1, 2, clock=lambda: 1e9 + ahead))
    assert second.offset == ahead
    assert head.faults == []
    assert second.faults == (
        [f"The clock of gpu2 is {told} that of gpu1. Have both keep time (chrony or systemd-timesyncd; timedatectl tells whether they do)."]
        if told else []
    )  # fmt: skip


def test_a_slow_way_is_no_difference_of_clocks(rank):
    """Six seconds there and six back, by clocks that agree: the follower asks at 0, the head hears and answers at 6, and so on."""
    asked = iter([0.0, 12.0])
    _head, second = meet(rank(0, 2, clock=lambda: 6.0), rank(1, 2, clock=lambda: next(asked)))
    assert (second.offset, second.faults) == (0.0, [])


def test_no_route_is_told_once():
    """Though the one that can't be answered waits in vain."""
    big = Deployment("big", 0, tuple(Peer(f"gpu{n}", "") for n in range(3)), 29501)
    failures = [meeting.Failure(0, 1, talking.NO_ROUTE), meeting.Failure(1, 0, talking.TIMED_OUT)]
    failures.append(meeting.Failure(2, 0, talking.TIMED_OUT))
    no_route, timed_out = problems.pairs(big, failures, [Place("127.0.0.2", 9)] * 3)
    assert no_route.startswith("gpu0 could not reach gpu1 at 127.0.0.2:9: it has no route")
    assert timed_out.startswith("gpu2 could not reach gpu0 at 127.0.0.2:9: it timed out")


def test_many_are_counted():
    big = Deployment("big", 0, tuple(Peer(f"gpu{n}", "") for n in range(12)), 29501)
    failures = [meeting.Failure(0, rank, talking.NO_ROUTE) for rank in range(1, 12)]
    (told,) = problems.pairs(big, failures, [Place("127.0.0.2", 9)] * 12)
    assert told.count("could not reach") == problems.SHOWN
    assert " and 3 more: it has no route" in told


def test_a_line_has_an_end_in_time_and_in_size():
    ours, theirs = socket.socketpair()
    with theirs, Talk(ours) as talk:
        theirs.sendall(b'{"half":')
        with pytest.raises(TalkError, match=talking.SILENT):
            talk.hear(time.monotonic() + 0.05)
        theirs.sendall(b" 1}\n{}\n")
        assert (talk.hear(soon()), talk.hear(soon())) == ({"half": 1}, {})
        theirs.sendall(b"x" * 200)
        with pytest.raises(TalkError, match=talking.STRANGE):
            talk.hear(soon(), most=100)


def test_what_others_say_of_a_failure_can_do_nothing_at_a_terminal():
    assert meeting.failures([[0, 1, "\x1b[2Jrefused\r\n" + "x" * 200]], 2) == [
        meeting.Failure(0, 1, ("[2Jrefused" + "x" * 200)[:100])
    ]

"""Nodes meet before a training starts: real sockets of this host, one thread a node."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.model import Status
from launch.rendezvous import hello, judge, meeting
from launch.rendezvous.hello import Hello
from launch.rendezvous.result import RendezvousResult
from launch.run import this_node
from launch.targets.request import TrainRequest
from tests.launch.gates.gate_parts import JOB, situated

OWN = Hello(
    host="n0", address="10.0.0.1", nodes=3, job="a" * 64, device="npu", devices=16, driver="24.1.0", python="3.10.12",
    packages={"paddlepaddle": "3.1.0"},
)  # fmt: skip


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node(number: int, **more: object) -> Hello:
    return replace(OWN, host=f"n{number}", address=f"10.0.0.{number + 1}", rank=number, **more)  # type: ignore[arg-type]


def gathered(port: int, *nodes: Hello, limit_s: float = 20.0) -> list[RendezvousResult]:
    """The first leads."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        asked = [
            pool.submit(meeting.meet, each, "127.0.0.1", port, limit_s, lambda words: None, leads=not n)
            for n, each in enumerate(nodes)
        ]
        return [each.result(timeout=limit_s + 30) for each in asked]


def bad(met: RendezvousResult) -> dict[str, str]:
    return {f.name: f.seen for f in met.findings if f.status in (Status.FAIL, Status.WARN)}


def test_all_there(port: int) -> None:
    """Three nodes that belong together each learn so, and the port is free for the launcher at once."""
    met = gathered(port, node(0), node(1), node(2))

    assert [m.rank for m in met] == [0, 1, 2]
    assert [bad(m) for m in met] == [{}, {}, {}]
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_ranks_are_given(port: int) -> None:
    """Who has no rank gets one by its address, the same at every start."""
    met = gathered(port, node(0), replace(node(9), rank=None), replace(node(8), rank=None))

    assert [m.rank for m in met] == [0, 2, 1]


@pytest.mark.parametrize(
    ("odd", "name", "words"),
    (
        ({"rank": 1}, "nodes.ranks", "rank 1 is taken by n1 (10.0.0.2), n2 (10.0.0.3)"),
        ({"rank": 7}, "nodes.ranks", "rank 7 of 3 nodes"),
        ({"devices": 15}, "nodes.devices", "cards: 15 on rank 2 (n2, 10.0.0.3), 16 on 2 others"),
        ({"packages": {"paddlepaddle": "3.1.1"}}, "nodes.packages", "paddlepaddle: 3.1.1 on rank 2"),
        ({"packages": {}}, "nodes.packages", "paddlepaddle: not installed on rank 2"),
        ({"job": "b" * 64}, "nodes.job", "the command: bbbbbbbbbbbb on rank 2"),
        ({"nodes": 4}, "nodes.count", "the number of nodes: 4 on rank 2"),
        ({"driver": "23.0.3"}, "nodes.driver", "driver: 23.0.3 on rank 2"),
        ({"python": "3.9.2"}, "nodes.python", "Python: 3.9.2 on rank 2"),
    ),
)
def test_the_odd_one_is_named(port: int, odd: dict[str, object], name: str, words: str) -> None:
    """What differs on one node is told to all of them, with the node, its value and the others'."""
    met = gathered(port, node(0), node(1), replace(node(2), **odd))  # type: ignore[arg-type]

    for each in met:
        assert list(bad(each)) == [name]
        assert words in bad(each)[name]


def test_roles_may_differ(port: int) -> None:
    """On a machine park of two vendors each has its own command, cards, driver and packages."""
    other = replace(node(1), role="iluvatar", device="iluvatar", devices=8, job="c" * 64, driver="4.3", packages={})
    met = gathered(port, *(replace(each, nodes=2) for each in (replace(node(0), role="nvidia"), other)))

    assert [bad(m) for m in met] == [{}, {}]


def test_clocks(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is off is told by how much, however slow the talk was."""
    off = replace(node(1), skew_s=-90.0)

    finding = judge.clock([node(0), off])
    assert finding.status is Status.WARN
    assert "rank 1 (n1, 10.0.0.2) is 90.0 s behind" in finding.seen
    assert all(abs(g.skew_s) < 0.3 for g in gathered(port, *(replace(node(n), nodes=2) for n in (0, 1)))[0].nodes)


@pytest.mark.slow
def test_a_node_that_does_not_come(port: int) -> None:
    """Within the limit everybody ends, and the missing rank is named to those who came."""
    began = time.monotonic()
    met = gathered(port, node(0), node(1), limit_s=4)

    assert time.monotonic() - began < 120
    for each in met:
        assert bad(each) == {"nodes.present": "2 of 3 nodes came within 4 s: rank 2 missing"}


@pytest.mark.slow
def test_nobody_leads(port: int) -> None:
    """Without node 0 the others end at the limit and say what they found at its address."""
    met = meeting.meet(node(1), "127.0.0.1", port, 1.5, lambda words: None, leads=False)
    lost = meeting.meet(node(1), "no-such-host.invalid", port, 0.5, lambda words: None, leads=False)

    assert "nobody listens there (connection refused)" in bad(met)["nodes.master"]
    assert "the name leads nowhere" in bad(lost)["nodes.master"]


def test_the_port_is_taken(port: int) -> None:
    """Node 0 says so instead of waiting."""
    with socket.create_server(("", port)):
        met = meeting.meet(node(0), "127.0.0.1", port, 5, lambda words: None, leads=True)

    assert f"the port {port} cannot be opened: address already in use" in bad(met)["nodes.port"]


@contextlib.contextmanager
def strangers(port: int, *words: bytes) -> Iterator[None]:
    """Knock with these words for as long as the body lasts."""
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            for word in words:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as talk:
                    talk.sendall(word)
            time.sleep(0.05)

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_strangers_at_the_door(port: int) -> None:
    """Port scanners, browsers and floods are shown out; the nodes meet all the same."""
    words = (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 300_000, b"[" * 9000 + b"\n", b'{"envcheck-node": 1}\n', b"null\n")
    with strangers(port, *words):
        met = gathered(port, node(0), node(1), node(2))

    assert [bad(m) for m in met] == [{}, {}, {}]


def test_a_launcher_without_a_port(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command names no port, all nodes meet at the same one, and none waits for the others in vain."""
    monkeypatch.setattr(this_node, "MEET_PORT", port)
    seen = situated(job=replace(JOB, nodes=2))
    asked = [TrainRequest(rank=rank, master="127.0.0.1", host="127.0.0.1", gather_s=20) for rank in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        met = list(pool.map(lambda request: this_node.gather(request, seen, False, lambda words: None), asked))

    assert seen.port is None
    assert [bad(m) for m in met] == [{}, {}]


@pytest.mark.slow
def test_something_else_listens(port: int) -> None:
    """Another service at the master's address is no node 0, and ends at the limit."""
    with socket.create_server(("127.0.0.1", port)) as door:
        door.settimeout(0.2)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    talk, _ = door.accept()
                    talk.sendall(b"SSH-2.0-x\r\n")
                    talk.close()

        thread = threading.Thread(target=serve)
        thread.start()
        met = meeting.meet(node(1), "127.0.0.1", port, 2, lambda words: None, leads=False)
        over.set()
        thread.join()

    assert "something else listens there" in bad(met)["nodes.master"]


@pytest.mark.slow
@given(
    st.binary(max_size=400) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)
)
def test_any_bytes(line: bytes) -> None:
    """Nothing that comes over the wire is a fault."""
    assert hello.unpacked(line) is None


def test_a_greeting_comes_back() -> None:
    """What is sent is what is read, without control characters."""
    assert hello.unpacked(hello.packed(OWN)) == OWN
    assert hello.unpacked(hello.packed(replace(OWN, host="a\x1b[2J"))) == replace(OWN, host="a?[2J")

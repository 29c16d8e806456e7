"""The rendezvous of nodes before a training starts, with real sockets of this host and one thread per node."""

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

from envcheck.core.language import translate
from envcheck.core.model import Status
from launch.rendezvous import client, handshake, hello, judge
from launch.rendezvous.hello import Hello
from launch.rendezvous.result import RendezvousResult
from launch.run import this_node
from launch.targets.train_request import TrainRequest
from tests.launch.gates.gate_parts import JOB, make_context

OWN = Hello(
    host="n0", address="10.0.0.1", nodes=3, job="a" * 64, device="npu", devices=16, driver="24.1.0", python="3.10.12",
    packages={"paddlepaddle": "3.1.0"},
)  # fmt: skip


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_hello(number: int, **more: object) -> Hello:
    return replace(OWN, host=f"n{number}", address=f"10.0.0.{number + 1}", rank=number, **more)  # type: ignore[arg-type]


def meet_nodes(port: int, *nodes: Hello, limit_s: float = 20.0) -> list[RendezvousResult]:
    """Run the rendezvous with the first node as node 0."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        asked = [
            pool.submit(handshake.run_rendezvous, each, "127.0.0.1", port, limit_s, lambda words: None, leads=not n)
            for n, each in enumerate(nodes)
        ]
        return [each.result(timeout=limit_s + 30) for each in asked]


def list_problems(met: RendezvousResult) -> dict[str, str]:
    return {f.name: f.seen for f in met.findings if f.status in (Status.FAIL, Status.WARN)}


def test_all_nodes_join(port: int) -> None:
    """Three consistent nodes each get a verdict without problems, and the port is free for the launcher at once."""
    met = meet_nodes(port, make_hello(0), make_hello(1), make_hello(2))

    assert [m.rank for m in met] == [0, 1, 2]
    assert [list_problems(m) for m in met] == [{}, {}, {}]
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_ranks_are_assigned(port: int) -> None:
    """Nodes without a rank get one in the order of their addresses, the same at every start."""
    met = meet_nodes(port, make_hello(0), replace(make_hello(9), rank=None), replace(make_hello(8), rank=None))

    assert [m.rank for m in met] == [0, 2, 1]


@pytest.mark.parametrize(
    ("odd", "name", "words"),
    (
        ({"rank": 1}, "nodes.ranks", "rank 1 is used by several nodes: n1 (10.0.0.2), n2 (10.0.0.3)"),
        ({"rank": 7}, "nodes.ranks", "rank 7 is out of range for 3 nodes"),
        ({"devices": 15}, "nodes.devices", "devices: 15 on rank 2 (n2, 10.0.0.3), 16 on 2 other nodes"),
        ({"packages": {"paddlepaddle": "3.1.1"}}, "nodes.packages", "paddlepaddle: 3.1.1 on rank 2"),
        ({"packages": {}}, "nodes.packages", "paddlepaddle: not installed on rank 2"),
        ({"job": "b" * 64}, "nodes.job", "hash of the command: bbbbbbbbbbbb on rank 2"),
        ({"nodes": 4}, "nodes.count", "number of nodes: 4 on rank 2"),
        ({"driver": "23.0.3"}, "nodes.driver", "driver: 23.0.3 on rank 2"),
        ({"python": "3.9.2"}, "nodes.python", "Python: 3.9.2 on rank 2"),
    ),
)
def test_an_outlier_is_named(port: int, odd: dict[str, object], name: str, words: str) -> None:
    """A difference on one node is reported to all nodes, with the node, its value and that of the others."""
    met = meet_nodes(port, make_hello(0), make_hello(1), replace(make_hello(2), **odd))  # type: ignore[arg-type]

    for each in met:
        assert list(list_problems(each)) == [name]
        assert words in list_problems(each)[name]


def test_roles_may_differ(port: int) -> None:
    """In a job over two vendors each has its own command, devices, driver and packages."""
    other = replace(
        make_hello(1), role="iluvatar", device="iluvatar", devices=8, job="c" * 64, driver="4.3", packages={}
    )
    met = meet_nodes(port, *(replace(each, nodes=2) for each in (replace(make_hello(0), role="nvidia"), other)))

    assert [list_problems(m) for m in met] == [{}, {}]


def test_clocks(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock difference is reported in seconds, and a slow connection is not counted as one."""
    off = replace(make_hello(1), skew_s=-90.0)

    finding = judge.check_clock([make_hello(0), off])
    assert finding.status is Status.WARN
    assert "the clock of rank 1 (n1, 10.0.0.2) is 90.0 s behind node 0" in finding.seen
    assert all(
        abs(g.skew_s) < 0.3 for g in meet_nodes(port, *(replace(make_hello(n), nodes=2) for n in (0, 1)))[0].nodes
    )


@pytest.mark.slow
def test_a_missing_node(port: int) -> None:
    """All nodes end at the time limit, and the missing rank is reported to those that joined."""
    began = time.monotonic()
    met = meet_nodes(port, make_hello(0), make_hello(1), limit_s=4)

    assert time.monotonic() - began < 120
    for each in met:
        assert list_problems(each) == {"nodes.present": "only 2 of 3 nodes joined within 4 s; missing: rank 2"}


@pytest.mark.slow
def test_node_0_is_missing(port: int) -> None:
    """Without node 0 the others end at the time limit and report the connection error."""
    met = handshake.run_rendezvous(make_hello(1), "127.0.0.1", port, 1.5, lambda words: None, leads=False)
    lost = handshake.run_rendezvous(make_hello(1), "no-such-host.invalid", port, 0.5, lambda words: None, leads=False)

    assert "no process listens on this port (connection refused)" in list_problems(met)["nodes.master"]
    assert "cannot resolve the name" in list_problems(lost)["nodes.master"]


def test_the_port_is_taken(port: int) -> None:
    """Node 0 reports that its port is in use instead of waiting."""
    with socket.create_server(("", port)):
        met = handshake.run_rendezvous(make_hello(0), "127.0.0.1", port, 5, lambda words: None, leads=True)

    assert f"cannot open port {port}: address already in use" in list_problems(met)["nodes.port"]


@contextlib.contextmanager
def send_strange_words(port: int, *words: bytes) -> Iterator[None]:
    """Connect and send these bytes, repeatedly, while the body runs."""
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


def test_findings_of_node_0_are_translated_on_other_nodes(port: int, chinese: None) -> None:
    """Node 0 sends templates and values, so that each node shows them in its own language."""
    met = meet_nodes(port, make_hello(0), make_hello(1), make_hello(1))

    (finding,) = [f for f in met[1].findings if f.status is Status.FAIL]
    assert translate(finding.seen) == "多个节点使用了 rank 1：n1 (10.0.0.2)、n1 (10.0.0.2)"
    assert finding.remedy and translate(finding.remedy.words) == "请用 --rank 为每个节点指定不同的 rank。"


def test_other_clients_on_the_port(port: int) -> None:
    """Port scanners, browsers and floods are disconnected; the rendezvous still succeeds."""
    words = (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 300_000, b"[" * 9000 + b"\n", b'{"envcheck-node": 1}\n', b"null\n")
    with send_strange_words(port, *words):
        met = meet_nodes(port, make_hello(0), make_hello(1), make_hello(2))

    assert [list_problems(m) for m in met] == [{}, {}, {}]


def test_a_launcher_without_a_port(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the command has no port, all nodes use the same default port."""
    monkeypatch.setattr(this_node, "MEET_PORT", port)
    seen = make_context(job=replace(JOB, nodes=2))
    asked = [TrainRequest(rank=rank, master="127.0.0.1", host="127.0.0.1", gather_s=20) for rank in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        met = list(pool.map(lambda request: this_node.gather_nodes(request, seen, False, lambda words: None), asked))

    assert seen.port is None
    assert [list_problems(m) for m in met] == [{}, {}]


def test_another_service_is_told_from_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names another program, and does not claim at the same time that no process listens."""

    def connect(*args: object, **more: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(b"SSH-2.0-x\r\n")
        theirs.close()
        return ours

    monkeypatch.setattr(client.socket, "create_connection", connect)
    told: list[str] = []
    client.join_rendezvous(make_hello(1), "m", 1, time.monotonic() + 0.5, 0.5, told.append)

    assert told == ["waiting for node 0 at m:1: another program listens on this port"]


@pytest.mark.slow
def test_another_service_listens(port: int) -> None:
    """Another service at the address of the master is reported at the time limit."""
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
        met = handshake.run_rendezvous(make_hello(1), "127.0.0.1", port, 2, lambda words: None, leads=False)
        over.set()
        thread.join()

    assert list_problems(met)["nodes.master"].endswith(": another program listens on this port")


@pytest.mark.slow
@given(
    st.binary(max_size=400) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)
)
def test_any_bytes(line: bytes) -> None:
    """Arbitrary bytes are rejected without an exception."""
    assert hello.unpack_hello(line) is None


def test_facts_survive_the_transfer() -> None:
    """Parsed facts equal those that were sent, without control characters."""
    assert hello.unpack_hello(hello.pack_hello(OWN)) == OWN
    assert hello.unpack_hello(hello.pack_hello(replace(OWN, host="a\x1b[2J"))) == replace(OWN, host="a?[2J")

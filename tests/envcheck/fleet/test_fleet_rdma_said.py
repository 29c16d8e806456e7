"""RDMA between hosts, without hosts: what the tools said, which ports are tried, and what is said of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.language import translator
from envcheck.core.model import Status
from envcheck.fleet.peers import agent_answers, peer_findings, peer_tests, rdma
from envcheck.fleet.peers.agent_answers import About
from envcheck.fleet.peers.peer_tests import Seen
from envcheck.fleet.peers.rdma import End, Has, Port, Try
from envcheck.fleet.peers.rdma_output import Kind, Outcome, outcome
from envcheck.fleet.peers.rdma_rounds import Crossed
from tests.envcheck.fleet.rdma_parts import DATA
from tests.envcheck.fleet.rdma_parts import told_of as of
from tests.envcheck.fleet.test_fleet_agent import JSON

FAIL, UNKNOWN, NOT_APPLICABLE, OK = Status.FAIL, Status.UNKNOWN, Status.NOT_APPLICABLE, Status.OK

WELL = {
    "ib_write_bw": Outcome(Kind.WELL, rate=0.044648e9 / 8),
    "ib_send_lat": Outcome(Kind.WELL, time_s=25982.07e-6),
    "ib_read_lat": Outcome(Kind.WELL, time_s=676.80e-6),
    "ibv_rc_pingpong": Outcome(Kind.WELL, time_s=64745.45e-6),
    "rping": Outcome(Kind.WELL),
}


@pytest.mark.parametrize("tool", WELL)
def test_a_recorded_answer(tool: str) -> None:
    """What the real tool said over soft RoCE is read; a part of it, or another's words, is neither well nor lost."""
    text = (DATA / f"{tool}.client.txt").read_text()
    found = outcome(tool, 0, text)

    assert found.kind is Kind.WELL
    assert (found.rate, found.time_s) == (pytest.approx(WELL[tool].rate), pytest.approx(WELL[tool].time_s))
    assert outcome(tool, 0, text[: len(text) // 3]).kind is (Kind.WELL if tool == "rping" else Kind.UNREAD)
    assert outcome(tool, 0, "").kind is Kind.UNREAD


# Client's status and words, server's words: all but the two that are named seen with perftest 4.5 and rdma-core 44.
NOT_WELL = (
    (Kind.LATE, None, "", ""),
    (Kind.LATE, None, "", "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n"),
    (Kind.LOST, 1, " Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n", ""),
    (Kind.LOST, 1, "client read/write: No data available\nCouldn't read/write remote address\n",
     "Failed to modify QP to RTR\nCouldn't connect to remote QP\n"),
    (Kind.LOST, 1, " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n",
     ""),
    (Kind.LOST, 255, "rdma_resolve_addr: Network is unreachable\n", ""),
    (Kind.LOST, None, "Failed status transport retry counter exceeded (12) for wr_id 2\n", ""),  # its source
    (Kind.UNMET, 1, "Couldn't connect to 10.9.0.2:18515\nUnable to open file descriptor for socket connection Unable "
     "to init the socket connection\n", ""),
    (Kind.UNMET, 255, "cma event RDMA_CM_EVENT_REJECTED, error 8\nwait for CONNECTED state 4\nconnect error -1\n", ""),
    (Kind.UNABLE, 1, "IB device mlx5_0 not found\n Unable to find the Infiniband/RoCE device\n", ""),
    (Kind.UNABLE, 1, "libibverbs: Warning: RLIMIT_MEMLOCK is 0 bytes.\nCouldn't register MR\n", ""),
    (Kind.UNABLE, 1, "Failed to get IB devices list: Function not implemented\n", ""),
    (Kind.UNREAD, 1, "some new words\n", ""),  # nobody's
)  # fmt: skip


@pytest.mark.parametrize(("kind", "code", "words", "other"), NOT_WELL)
def test_what_is_not_well(kind: Kind, code: int | None, words: str, other: str) -> None:
    """No answer of RDMA's own is lost; that the two sides did not meet, or one could not begin, tells nothing of it."""
    found = outcome("ib_write_bw", code, words, other)

    assert found.kind is kind
    assert found.rate is None
    assert found.why in words + other


MAPPED, LOCAL = "0000:0000:0000:0000:0000:ffff:0a09:0001", "fe80:0000:0000:0000:5054:00ff:fe00:0201"
V1, V2 = "IB/RoCE v1", "RoCE v2"
ROCE = Port("mlx5_0", 1, layer="Ethernet", gids={0: (V1, LOCAL), 1: (V2, LOCAL), 2: (V1, MAPPED), 3: (V2, MAPPED)})


@pytest.mark.parametrize(
    ("variables", "ports", "named"),
    (
        ({}, (ROCE,), ["mlx5_0 port 1 GID 3"]),
        ({"NCCL_IB_GID_INDEX": "1"}, (ROCE,), ["mlx5_0 port 1 GID 1"]),
        ({"NCCL_IB_GID_INDEX": "-1"}, (ROCE,), ["mlx5_0 port 1 GID 3"]),
        ({}, (Port("ib0", 1, gids={0: ("IB/RoCE v1", LOCAL)}), Port("ib1", 1, "DOWN")), ["ib0 port 1"]),
        ({}, (Port("irdma0", 1, kind="RNIC"), Port("ib0", 1)), ["ib0 port 1"]),
        ({"NCCL_IB_HCA": "^mlx5_1"}, (ROCE, Port("mlx5_1", 1)), ["mlx5_0 port 1 GID 3"]),
        ({"FLAGCX_IB_HCA": "=mlx5_1:1"}, (ROCE, Port("mlx5_1", 1)), ["mlx5_1 port 1"]),
    ),
)
def test_which_ports_are_tried(variables: dict[str, str], ports: tuple[Port, ...], named: list[str]) -> None:
    """Those that NCCL would take: named by its variables, active, and with RoCE by an address of version 2."""
    assert [end.name for end in rdma.ends("n1", Has((), ports, variables))] == named


def test_ports_meet_their_like() -> None:
    """The same name first, then what is left of the same kind; none of another kind."""
    tools = ("rping", "ib_send_lat")
    left, right = (
        Has(tools, tuple(Port(name, 1, layer=layer) for name, layer in ports))
        for ports in (
            (("a", "InfiniBand"), ("b", "InfiniBand"), ("c", "Ethernet")),
            (("b", "InfiniBand"), ("d", "InfiniBand"), ("e", "InfiniBand")),
        )
    )
    found = rdma.tries(left, right, rdma.ends("n1", left), rdma.ends("n2", right))

    assert [(one.a.port.device, one.b.port.device) for one in found] == [("b", "b"), ("a", "d")]
    assert {one.tool for one in found} == {"ib_send_lat"}  # rping wants an address, and InfiniBand's is not known


@pytest.mark.parametrize("said", ("-x", "a b", "$(x)", "../x", "", "x" * 65))
def test_a_device_that_is_none(said: str) -> None:
    """A name becomes a word of a command on another host, and of one that is shown to be pasted."""
    port = {"device": said, "port": 1, "state": "ACTIVE", "layer": "", "rate": "", "kind": "CA", "gids": {}}

    with pytest.raises(ValueError, match="no device"):
        agent_answers.rdma({"tools": [], "variables": {}, "ports": [port]})


class Strange:
    def __init__(self, said: object) -> None:
        self.said = said

    async def ask(self, do: str, *words: object, timeout_s: float) -> object:
        return {"id": 1, "answer": self.said}


@given(st.sampled_from(("tools", "ports", "variables", "0", "1")), JSON, JSON)
def test_hosts_may_say_anything(key: str, one: object, other: object) -> None:
    """Whatever two hosts answer, each is tried or left out, and a judgement stands."""
    fleet = {name: Strange({"tools": [], "ports": [], "variables": {}, key: said}) for name, said in
             (("n1", one), ("n2", other))}  # fmt: skip
    trial = peer_tests._Trial({}, peer_tests.Terms(), fleet, Seen())  # type: ignore[arg-type]
    trial.seen.about = {name: About(name, f"10.0.0.{n}") for n, name in enumerate(fleet, 1)}
    trial.data = {"n1": 1, "n2": 1}
    asyncio.run(trial.rdma())

    assert set(trial.lines) | set(trial.seen.gone) == {"n1", "n2"}
    assert all(grade is not OK for grade, _, _ in of(trial.seen))


def crossed(kind: dict[tuple[str, str], Kind], ports: int = 1) -> Seen:
    """Four hosts; what is not named is well."""
    names = ["n1", "n2", "n3", "n4"]
    ends = {host: [End(host, Port(f"mlx5_{n}", 1)) for n in range(ports)] for host in names}
    has = {host: Has(("ib_write_bw",), tuple(end.port for end in ends[host])) for host in names}
    found = {
        Try("ib_write_bw", one, met): Outcome(kind.get((a, b), Kind.WELL), rate=1e9, why="Failed status 12")
        for a, b in ((a, b) for n, a in enumerate(names) for b in names[n + 1 :])
        for one, met in zip(ends[a], ends[b], strict=True)
    }
    about = {host: About(host, "10.0.0.1") for host in names}
    return Seen(about, rdma=Crossed(has, ends, [], [], found))


def test_who_is_blamed() -> None:
    """A host with which all is lost is one finding with all its ports; a single way is told as that way."""
    of_host = of(crossed({("n1", "n3"): Kind.LOST, ("n2", "n3"): Kind.LOST, ("n3", "n4"): Kind.LATE}, 8))
    of_way = of(crossed({("n1", "n3"): Kind.LOST}, 8))

    assert [(grade, hosts) for grade, _, hosts in of_host] == [(FAIL, ("n3",))]
    assert of_host[0][1].startswith(
        "mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1 and 4 more of n3 does not"
    )
    assert "by RDMA with n[1-2,4]: " in of_host[0][1]
    assert of_way[0][:1] + of_way[0][2:] == (FAIL, ("n1", "n3"))
    assert of_way[0][1].startswith("n1 mlx5_0 port 1 -> n3 mlx5_0 port 1 and 7 more does not come through")


def test_what_is_lacking_is_said() -> None:
    """No device, no active port, no answer, no common tool: each is told as what it is, none as well."""
    down = Has((), (Port("mlx5_0", 1, "DOWN"),))
    has = {"n1": Has(("rping",), (ROCE,)), "n2": Has(("ib_send_lat",), (ROCE,))}
    ends = {host: rdma.ends(host, one) for host, one in has.items()}

    assert of(Seen(rdma=Crossed({"n1": Has()}, {"n1": []}))) == [(NOT_APPLICABLE, "no host has an RDMA device", ())]
    assert of(Seen(rdma=Crossed({"n1": down}, {"n1": []}))) == [
        (NOT_APPLICABLE, "no port of InfiniBand or RoCE is active", ())
    ]
    assert of(Seen(rdma=Crossed(has, ends, shut=["n1"]))) == [
        (Status.BLOCKED, "RDMA was not tried with n1: fleet.open tells why", ("n1",))
    ]
    assert of(Seen(rdma=Crossed(has, ends, ["n3"], [("n1", "n2")]))) == [
        (UNKNOWN, "n3 did not say which RDMA devices it has", ("n3",)),
        (UNKNOWN, "RDMA could not be tried between n[1-2]: no tool or kind of port in common", ("n1", "n2")),
    ]


def test_it_is_said_in_chinese() -> None:
    """Each sentence and advice about RDMA has its Chinese."""
    said = translator.load("zh")
    seen = [crossed({(a, b): kind}) for a, b in (("n1", "n3"),) for kind in Kind]
    seen.append(crossed({("n1", "n3"): Kind.LOST, ("n2", "n3"): Kind.LOST}))
    slow = crossed({})
    first = next(iter(slow.rdma.outcomes))
    slow.rdma.outcomes[first] = slow.rdma.again[first] = Outcome(Kind.WELL, rate=1e7)
    has = {"n1": Has(("rping",), (ROCE,)), "n2": Has((), (ROCE,)), "n3": Has()}
    ends = {host: rdma.ends(host, one) for host, one in has.items()}
    lacking = [Crossed(has, ends, ["n3"], [("n1", "n2")]), Crossed(has, ends, [], [("n1", "n1")])]
    lacking.append(Crossed(has, ends, shut=["n1"]))
    lacking += [Crossed({"n1": Has()}, {"n1": []}), Crossed({"n1": Has((), (Port("x", 1, "DOWN"),))}, {"n1": []})]
    found = [
        one.finding for s in (*seen, slow, *(Seen(rdma=one) for one in lacking)) for one in peer_findings.findings(s)
    ]
    texts = {text for f in found for text in (f.seen, f.remedy.words if f.remedy else "") if text}

    assert len(texts) > 20
    assert [text for text in texts if said(text) == text] == []

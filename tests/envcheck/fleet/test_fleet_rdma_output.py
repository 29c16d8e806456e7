"""RDMA between hosts, without hosts: parsed tool output, chosen ports, and findings."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.language import gettext_catalogue
from envcheck.core.model import Status
from envcheck.fleet.peers import agent_answers, host_findings, host_tests, rdma_tools
from envcheck.fleet.peers.agent_answers import AgentInfo
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.rdma_output import RdmaOutcome, RdmaVerdict, read_outcome
from envcheck.fleet.peers.rdma_rounds import RdmaObservations
from envcheck.fleet.peers.rdma_tools import RdmaDevicePort, RdmaEndpoint, RdmaInventory, RdmaTrial
from tests.envcheck.fleet.rdma_parts import DATA
from tests.envcheck.fleet.rdma_parts import summarize_findings as of
from tests.envcheck.fleet.test_fleet_agent import JSON

FAIL, UNKNOWN, NOT_APPLICABLE, OK = Status.FAIL, Status.UNKNOWN, Status.NOT_APPLICABLE, Status.OK

WELL = {
    "ib_write_bw": RdmaOutcome(RdmaVerdict.WELL, rate=0.044648e9 / 8),
    "ib_send_lat": RdmaOutcome(RdmaVerdict.WELL, time_s=25982.07e-6),
    "ib_read_lat": RdmaOutcome(RdmaVerdict.WELL, time_s=676.80e-6),
    "ibv_rc_pingpong": RdmaOutcome(RdmaVerdict.WELL, time_s=64745.45e-6),
    "rping": RdmaOutcome(RdmaVerdict.WELL),
}


@pytest.mark.parametrize("tool", WELL)
def test_a_recorded_answer(tool: str) -> None:
    """Recorded output of the real tool is parsed; a part of it, or other text, is neither good nor lost."""
    text = (DATA / f"{tool}.client.txt").read_text()
    found = read_outcome(tool, 0, text)

    assert found.kind is RdmaVerdict.WELL
    assert (found.rate, found.time_s) == (pytest.approx(WELL[tool].rate), pytest.approx(WELL[tool].time_s))
    assert read_outcome(tool, 0, text[: len(text) // 3]).kind is (
        RdmaVerdict.WELL if tool == "rping" else RdmaVerdict.UNREAD
    )
    assert read_outcome(tool, 0, "").kind is RdmaVerdict.UNREAD


# Client's status and output, server's output: observed with perftest 4.5 and rdma-core 44, except two as marked.
NOT_WELL = (
    (RdmaVerdict.LATE, None, "", ""),
    (RdmaVerdict.LATE, None, "",
     "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n"),
    (RdmaVerdict.LOST, 1,
     " Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n", ""),
    (RdmaVerdict.LOST, 1, "client read/write: No data available\nCouldn't read/write remote address\n",
     "Failed to modify QP to RTR\nCouldn't connect to remote QP\n"),
    (RdmaVerdict.LOST, 1,
     " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n", ""),
    (RdmaVerdict.LOST, 255, "rdma_resolve_addr: Network is unreachable\n", ""),
    (RdmaVerdict.LOST, None, "Failed status transport retry counter exceeded (12) for wr_id 2\n", ""),  # from source
    (RdmaVerdict.UNMET, 1,
     "Couldn't connect to 10.9.0.2:18515\nUnable to open file descriptor for socket connection Unable "
     "to init the socket connection\n", ""),
    (RdmaVerdict.UNMET, 255,
     "cma event RDMA_CM_EVENT_REJECTED, error 8\nwait for CONNECTED state 4\nconnect error -1\n", ""),
    (RdmaVerdict.UNABLE, 1, "IB device mlx5_0 not found\n Unable to find the Infiniband/RoCE device\n", ""),
    (RdmaVerdict.UNABLE, 1, "libibverbs: Warning: RLIMIT_MEMLOCK is 0 bytes.\nCouldn't register MR\n", ""),
    (RdmaVerdict.UNABLE, 1, "Failed to get IB devices list: Function not implemented\n", ""),
    (RdmaVerdict.UNREAD, 1, "some new words\n", ""),  # of no tool
)  # fmt: skip


@pytest.mark.parametrize(("kind", "code", "words", "other"), NOT_WELL)
def test_what_is_not_well(kind: RdmaVerdict, code: int | None, words: str, other: str) -> None:
    """No RDMA answer means lost; sides that did not connect, or did not start, say nothing about RDMA."""
    found = read_outcome("ib_write_bw", code, words, other)

    assert found.kind is kind
    assert found.rate is None
    assert found.why in words + other


MAPPED, LOCAL = "0000:0000:0000:0000:0000:ffff:0a09:0001", "fe80:0000:0000:0000:5054:00ff:fe00:0201"
V1, V2 = "IB/RoCE v1", "RoCE v2"
ROCE = RdmaDevicePort(
    "mlx5_0", 1, layer="Ethernet", gids={0: (V1, LOCAL), 1: (V2, LOCAL), 2: (V1, MAPPED), 3: (V2, MAPPED)}
)


@pytest.mark.parametrize(
    ("variables", "ports", "named"),
    (
        ({}, (ROCE,), ["mlx5_0 port 1 GID 3"]),
        ({"NCCL_IB_GID_INDEX": "1"}, (ROCE,), ["mlx5_0 port 1 GID 1"]),
        ({"NCCL_IB_GID_INDEX": "-1"}, (ROCE,), ["mlx5_0 port 1 GID 3"]),
        (
            {},
            (RdmaDevicePort("ib0", 1, gids={0: ("IB/RoCE v1", LOCAL)}), RdmaDevicePort("ib1", 1, "DOWN")),
            ["ib0 port 1"],
        ),
        ({}, (RdmaDevicePort("irdma0", 1, kind="RNIC"), RdmaDevicePort("ib0", 1)), ["ib0 port 1"]),
        ({"NCCL_IB_HCA": "^mlx5_1"}, (ROCE, RdmaDevicePort("mlx5_1", 1)), ["mlx5_0 port 1 GID 3"]),
        ({"FLAGCX_IB_HCA": "=mlx5_1:1"}, (ROCE, RdmaDevicePort("mlx5_1", 1)), ["mlx5_1 port 1"]),
    ),
)
def test_which_ports_are_tried(variables: dict[str, str], ports: tuple[RdmaDevicePort, ...], named: list[str]) -> None:
    """The ports that NCCL would use: allowed by its variables, active, and for RoCE with a version 2 GID."""
    assert [end.name for end in rdma_tools.list_endpoints("n1", RdmaInventory((), ports, variables))] == named


def test_ports_meet_their_like() -> None:
    """Ports of the same name are paired first, then the rest of the same kind; never different kinds."""
    tools = ("rping", "ib_send_lat")
    left, right = (
        RdmaInventory(tools, tuple(RdmaDevicePort(name, 1, layer=layer) for name, layer in ports))
        for ports in (
            (("a", "InfiniBand"), ("b", "InfiniBand"), ("c", "Ethernet")),
            (("b", "InfiniBand"), ("d", "InfiniBand"), ("e", "InfiniBand")),
        )
    )
    found = rdma_tools.plan_trials(
        left, right, rdma_tools.list_endpoints("n1", left), rdma_tools.list_endpoints("n2", right)
    )

    assert [(one.a.port.device, one.b.port.device) for one in found] == [("b", "b"), ("a", "d")]
    assert {one.tool for one in found} == {"ib_send_lat"}  # rping needs an address, which is unknown for InfiniBand


@pytest.mark.parametrize("said", ("-x", "a b", "$(x)", "../x", "", "x" * 65))
def test_a_device_that_is_none(said: str) -> None:
    """A device name becomes an argument on another host, and of a command that is shown: invalid ones are refused."""
    port = {"device": said, "port": 1, "state": "ACTIVE", "layer": "", "rate": "", "kind": "CA", "gids": {}}

    with pytest.raises(ValueError, match="no device"):
        agent_answers.read_rdma({"tools": [], "variables": {}, "ports": [port]})


class StrangeRdmaLine:
    def __init__(self, said: object) -> None:
        self.said = said

    async def ask_agent(self, do: str, *words: object, timeout_s: float) -> object:
        return {"id": 1, "answer": self.said}


@given(st.sampled_from(("tools", "ports", "variables", "0", "1")), JSON, JSON)
def test_hosts_may_say_anything(key: str, one: object, other: object) -> None:
    """Whatever two hosts answer, each is tested or excluded, and findings result."""
    fleet = {name: StrangeRdmaLine({"tools": [], "ports": [], "variables": {}, key: said}) for name, said in
             (("n1", one), ("n2", other))}  # fmt: skip
    trial = host_tests._PeerTrial({}, host_tests.PeerTestTerms(), fleet, PeerObservations())  # type: ignore[arg-type]
    trial.seen.about = {name: AgentInfo(name, f"10.0.0.{n}") for n, name in enumerate(fleet, 1)}
    trial.data = {"n1": 1, "n2": 1}
    asyncio.run(trial.rdma())

    assert set(trial.lines) | set(trial.seen.gone) == {"n1", "n2"}
    assert all(grade is not OK for grade, _, _ in of(trial.seen))


def make_crossed(kind: dict[tuple[str, str], RdmaVerdict], ports: int = 1) -> PeerObservations:
    """Return observations of four hosts; unnamed paths are good."""
    names = ["n1", "n2", "n3", "n4"]
    ends = {host: [RdmaEndpoint(host, RdmaDevicePort(f"mlx5_{n}", 1)) for n in range(ports)] for host in names}
    has = {host: RdmaInventory(("ib_write_bw",), tuple(end.port for end in ends[host])) for host in names}
    found = {
        RdmaTrial("ib_write_bw", one, met): RdmaOutcome(
            kind.get((a, b), RdmaVerdict.WELL), rate=1e9, why="Failed status 12"
        )
        for a, b in ((a, b) for n, a in enumerate(names) for b in names[n + 1 :])
        for one, met in zip(ends[a], ends[b], strict=True)
    }
    about = {host: AgentInfo(host, "10.0.0.1") for host in names}
    return PeerObservations(about, rdma=RdmaObservations(has, ends, [], [], found))


def test_who_is_blamed() -> None:
    """A host with only failed paths is one finding with all its ports; a single failed path is reported as a path."""
    of_host = of(
        make_crossed(
            {("n1", "n3"): RdmaVerdict.LOST, ("n2", "n3"): RdmaVerdict.LOST, ("n3", "n4"): RdmaVerdict.LATE}, 8
        )
    )
    of_way = of(make_crossed({("n1", "n3"): RdmaVerdict.LOST}, 8))

    assert [(grade, hosts) for grade, _, hosts in of_host] == [(FAIL, ("n3",))]
    assert of_host[0][1].startswith(
        "RDMA between mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1 and 4 more of n3 and"
    )
    assert " and n[1-2,4] failed: " in of_host[0][1]
    assert of_way[0][:1] + of_way[0][2:] == (FAIL, ("n1", "n3"))
    assert of_way[0][1].startswith("RDMA over n1 mlx5_0 port 1 -> n3 mlx5_0 port 1 and 7 more failed")


def test_what_is_lacking_is_said() -> None:
    """No device, no active port, no answer, no common tool: each is reported, none as good."""
    down = RdmaInventory((), (RdmaDevicePort("mlx5_0", 1, "DOWN"),))
    has = {"n1": RdmaInventory(("rping",), (ROCE,)), "n2": RdmaInventory(("ib_send_lat",), (ROCE,))}
    ends = {host: rdma_tools.list_endpoints(host, one) for host, one in has.items()}

    assert of(PeerObservations(rdma=RdmaObservations({"n1": RdmaInventory()}, {"n1": []}))) == [
        (NOT_APPLICABLE, "no host has an RDMA device", ())
    ]
    assert of(PeerObservations(rdma=RdmaObservations({"n1": down}, {"n1": []}))) == [
        (NOT_APPLICABLE, "no active InfiniBand or RoCE port", ())
    ]
    assert of(PeerObservations(rdma=RdmaObservations(has, ends, shut=["n1"]))) == [
        (Status.BLOCKED, "RDMA not tested with n1: see fleet.open", ("n1",))
    ]
    assert of(PeerObservations(rdma=RdmaObservations(has, ends, ["n3"], [("n1", "n2")]))) == [
        (UNKNOWN, "n3 did not report its RDMA devices", ("n3",)),
        (UNKNOWN, "RDMA could not be tested between n[1-2]: no tool or port type in common", ("n1", "n2")),
    ]


def test_it_is_said_in_chinese() -> None:
    """All messages and remedies about RDMA are translated."""
    said = partial(gettext_catalogue.render, language="zh")
    seen = [make_crossed({(a, b): kind}) for a, b in (("n1", "n3"),) for kind in RdmaVerdict]
    seen.append(make_crossed({("n1", "n3"): RdmaVerdict.LOST, ("n2", "n3"): RdmaVerdict.LOST}))
    slow = make_crossed({})
    first = next(iter(slow.rdma.outcomes))
    slow.rdma.outcomes[first] = slow.rdma.again[first] = RdmaOutcome(RdmaVerdict.WELL, rate=1e7)
    has = {"n1": RdmaInventory(("rping",), (ROCE,)), "n2": RdmaInventory((), (ROCE,)), "n3": RdmaInventory()}
    ends = {host: rdma_tools.list_endpoints(host, one) for host, one in has.items()}
    lacking = [RdmaObservations(has, ends, ["n3"], [("n1", "n2")]), RdmaObservations(has, ends, [], [("n1", "n1")])]
    lacking.append(RdmaObservations(has, ends, shut=["n1"]))
    lacking += [
        RdmaObservations({"n1": RdmaInventory()}, {"n1": []}),
        RdmaObservations({"n1": RdmaInventory((), (RdmaDevicePort("x", 1, "DOWN"),))}, {"n1": []}),
    ]
    found = [
        one.finding
        for s in (*seen, slow, *(PeerObservations(rdma=one) for one in lacking))
        for one in host_findings.list_findings(s)
    ]
    texts = {text for f in found for text in (f.seen, f.remedy.words if f.remedy else "") if text}

    assert len(texts) > 20
    assert [text for text in texts if said(text) == text] == []

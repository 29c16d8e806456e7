"""RDMA between hosts: with real sshd, and tools that answer what the real ones said over soft RoCE."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.core.model import Status
from envcheck.fleet.host_summary import Own
from envcheck.fleet.peers import peer_tests, rdma_rounds, sessions
from envcheck.fleet.peers.peer_tests import Seen
from tests.envcheck.fleet import fleet_parts, rdma_parts
from tests.envcheck.fleet.fleet_parts import Fleet, Host
from tests.envcheck.fleet.test_fleet_agent import running

pytestmark = pytest.mark.real

SIZE = 3
FAIL, UNKNOWN, WARN, OK = Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_parts.fleet(tmp_path_factory.mktemp("rdma"), SIZE, "cpu") as made:
        for host in made.hosts:
            host.stop()
            (host.folder / "class").mkdir()
            host.before = f"mount --bind {host.folder / 'class'} /sys/class"
            host.start(made.key)
        for host in made.hosts:
            made.wait(host)
        yield made


@pytest.fixture
def fleet(many: Fleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Each host has two ports and ib_write_bw; what is tried here goes by the user's own ssh."""
    for host in many.hosts:
        subprocess.run(["rm", "-rf", str(host.folder / "class" / "infiniband")], check=True)
        rdma_parts.devices(host, "mlx5_0", "mlx5_1")
        rdma_parts.equip(host)
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, many.environment()[name])
    yield many
    for host in many.hosts:
        assert until_quiet(host), "something is left on a host"


def until_quiet(host: Host) -> bool:
    """Nothing listens but sshd, and no tool runs, a moment after the connection ended."""
    for _ in range(100):
        done = subprocess.run(["ip", "netns", "exec", host.space, "ss", "-Hltnu"], capture_output=True, text=True)
        tools = [pid for pid in host.running() if "ib_" in _command(pid) or "rping" in _command(pid)]
        if len(done.stdout.splitlines()) == 1 and not tools:
            return True
        time.sleep(0.1)
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def told(fleet: Fleet, count: int = SIZE) -> rdma_parts.Told:
    """The steps that RDMA wants, of a trial over ssh."""

    async def done() -> Seen:
        own = {host.name: Own() for host in fleet.hosts[:count]}
        async with sessions.opened(list(own), 8, 30) as (open_lines, gone):
            trial = peer_tests._Trial(own, peer_tests.Terms(), open_lines, Seen(gone=dict(gone)))
            for step in (trial.meet, trial.knock, trial.rdma):
                await step()
            return trial.seen

    return rdma_parts.told_of(asyncio.run(done()))


def test_all_ports_reach_each_other(fleet: Fleet) -> None:
    """The whole command tells the measured rates of all ways, and leaves nobody listening."""
    done = fleet.run("doctor", "--hosts", f"node[01-0{SIZE}]", "--between", "--json", "--only", "host")
    found = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "fleet.rdma"]

    assert [(one["status"], one["seen"]) for one in found] == [
        ("OK", "6 ports reach each other by RDMA, 6 ways: ib_write_bw 44.6 Mbit/s to 44.6 Mbit/s")
    ]


def test_a_port_that_is_lost(fleet: Fleet) -> None:
    """A port with which nothing comes through is named with its host, the tool's reason and both commands."""
    rdma_parts.equip(fleet.hosts[1], mlx5_1="lost")
    for host in fleet.hosts[::2]:
        rdma_parts.equip(host)
    (first, *_) = found = told(fleet)

    assert first[0] is FAIL
    assert "mlx5_1 port 1" in first[1]
    assert "Completion with error at client: Failed status 12" in first[1]
    assert "mlx5_0" not in first[1]
    assert OK not in [grade for grade, _, _ in found]


def test_a_hang_ends_at_its_deadline(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that never ends is a failure of that way, and is ended on both sides."""
    monkeypatch.setattr(rdma_rounds, "TRY_S", 6.0)  # the tool itself may begin late on a busy machine
    rdma_parts.equip(fleet.hosts[0], mlx5_0="hang")
    found = told(fleet, 2)

    assert found == [
        (FAIL, "node01 mlx5_0 port 1 -> node02 mlx5_0 port 1 does not come through by RDMA: no end within 6 s",
         ("node01", "node02"))
    ]  # fmt: skip


def test_a_firewall_is_no_fault_of_rdma(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tools' own talk by TCP is dropped, RDMA cannot be told: a hang of that is no lost port."""
    monkeypatch.setattr(rdma_rounds, "TRY_S", 1.0)
    rules = "table inet t {\nchain c {\ntype filter hook input priority 0;\ntcp dport 18515-18899 drop;\n}\n}\n"
    nft = ["ip", "netns", "exec", fleet.hosts[1].space, "nft"]
    try:
        done = subprocess.run([*nft, "-f", "-"], input=rules, text=True, capture_output=True)
    except OSError:
        pytest.skip("a firewall wants nft (nftables)")
    if done.returncode:
        pytest.skip("a firewall wants nft (nftables), and a kernel with it")
    try:
        ((grade, seen, _),) = told(fleet, 2)
    finally:
        subprocess.run([*nft, "flush", "ruleset"], check=True)

    assert grade is UNKNOWN
    assert seen.endswith("and 1 more: nothing came to its TCP port 18515")


def test_a_port_that_is_slow(fleet: Fleet) -> None:
    """A rate under half of the others', and so again alone, is told with both figures."""
    for host in fleet.hosts:
        rdma_parts.equip(host, all="97.58")
    rdma_parts.equip(fleet.hosts[0], mlx5_0="97.58", mlx5_1="12.10")
    found = told(fleet)

    assert {grade for grade, _, _ in found} == {WARN, OK}
    assert "12.1 Gbit/s, 97.6 Gbit/s is usual" in found[0][1]
    assert found[0][1].startswith("node01 mlx5_1 port 1 -> ")


@pytest.mark.parametrize("tool", ("ib_send_lat", "ib_read_lat", "ibv_rc_pingpong", "rping"))
def test_each_tool(fleet: Fleet, tool: str) -> None:
    """Whichever both have is used, with options that the real one has; over RoCE with an address of version 2."""
    for host in fleet.hosts[:2]:
        rdma_parts.devices(host, "mlx5_0", "mlx5_1", layer="Ethernet")
        rdma_parts.equip(host, (tool,))
    ((grade, seen, _),) = told(fleet, 2)

    assert grade is OK
    assert f"2 ways: {tool}" in seen


def test_tools_or_devices_that_lack(fleet: Fleet) -> None:
    """Neither is ever well: no tool cannot be told, one host without a port is a warning."""
    rdma_parts.equip(fleet.hosts[2], ())
    without = told(fleet)
    rdma_parts.equip(fleet.hosts[2])
    rdma_parts.devices(fleet.hosts[2], "mlx5_0", "mlx5_1", state="1: DOWN")
    down = told(fleet)
    rdma_parts.equip(fleet.hosts[0], all="denied")
    denied = told(fleet, 2)

    assert without == [
        (UNKNOWN, "RDMA could not be tried: node03 has none of ib_write_bw, ib_send_lat, ib_read_lat, "
         "ibv_rc_pingpong, rping", ("node03",))
    ]  # fmt: skip
    assert down[0] == (WARN, "node03 has no active RDMA port, node[01-02] has", ("node03",))
    assert [(grade, seen.rpartition(": ")[2]) for grade, seen, _ in denied] == [
        (UNKNOWN, "Couldn't get context for mlx5_0")
    ]


def test_the_agent_leaves_nobody_listening(tmp_path: Path) -> None:
    """Its end is that of a tool that it began, though nobody asked for what it had to say."""
    mark = tmp_path / "pid"
    with running("sh", "-c", sessions.command()) as talk:
        argv = ["sh", "-c", f"echo $$ >{mark}; exec sleep 100"]
        assert talk.ask("serve", [["0", argv, False]], 30)["answer"]["0"] > 0
        pid = int(mark.read_text())
        assert Path(f"/proc/{pid}").exists()

    assert "sleep" not in _command(pid)

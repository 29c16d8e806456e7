"""RDMA between hosts: with real sshd, and tools that replay output of the real ones over soft RoCE."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.core.model import Status
from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.peers import host_tests, rdma_rounds, sessions
from envcheck.fleet.peers.host_tests import PeerObservations
from tests.envcheck.fleet import fleet_parts, rdma_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost
from tests.envcheck.fleet.test_fleet_agent import start_agent

pytestmark = pytest.mark.real

SIZE = 3
FAIL, UNKNOWN, WARN, OK = Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    with fleet_parts.start_fleet(tmp_path_factory.mktemp("rdma"), SIZE, "cpu") as made:
        for host in made.hosts:
            host.stop_sshd()
            (host.folder / "class").mkdir()
            host.before = f"mount --bind {host.folder / 'class'} /sys/class"
            host.start_sshd(made.key)
        for host in made.hosts:
            made.wait_for_sshd(host)
        yield made


@pytest.fixture
def fleet(many: SshFleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshFleet]:
    """Return hosts with two ports and ib_write_bw each; ssh uses the user's configuration."""
    for host in many.hosts:
        subprocess.run(["rm", "-rf", str(host.folder / "class" / "infiniband")], check=True)
        rdma_parts.write_rdma_devices(host, "mlx5_0", "mlx5_1")
        rdma_parts.install_tools(host)
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, many.make_environment()[name])
    yield many
    for host in many.hosts:
        assert wait_until_quiet(host), "something is left on a host"


def wait_until_quiet(host: SshHost) -> bool:
    """Wait until only sshd listens and no tool runs, a moment after the connection ended."""
    for _ in range(100):
        done = subprocess.run(["ip", "netns", "exec", host.space, "ss", "-Hltnu"], capture_output=True, text=True)
        tools = [pid for pid in host.list_processes() if "ib_" in _read_command(pid) or "rping" in _read_command(pid)]
        if len(done.stdout.splitlines()) == 1 and not tools:
            return True
        time.sleep(0.1)
    return False


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def run_rdma_steps(fleet: SshFleet, count: int = SIZE) -> rdma_parts.Told:
    """Run the steps that RDMA needs, over ssh."""

    async def done() -> PeerObservations:
        own = {host.name: HostSummary() for host in fleet.hosts[:count]}
        async with sessions.open_sessions(list(own), 8, 30) as (open_lines, gone):
            trial = host_tests._PeerTrial(
                own, host_tests.PeerTestTerms(), open_lines, PeerObservations(gone=dict(gone))
            )
            for step in (trial.meet, trial.knock, trial.rdma):
                await step()
            return trial.seen

    return rdma_parts.summarize_findings(asyncio.run(done()))


def test_all_ports_reach_each_other(fleet: SshFleet) -> None:
    """The command reports the measured rates of all paths, and leaves no listener."""
    done = fleet.run_envcheck("doctor", "--hosts", f"node[01-0{SIZE}]", "--between", "--json", "--only", "host")
    found = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "fleet.rdma"]

    assert [(one["status"], one["seen"]) for one in found] == [
        ("OK", "6 ports can reach each other over RDMA; 6 paths: ib_write_bw 44.6 Mbit/s to 44.6 Mbit/s")
    ]


def test_a_port_that_is_lost(fleet: SshFleet) -> None:
    """A port with no working path is reported with its host, the tool's reason and both commands."""
    rdma_parts.install_tools(fleet.hosts[1], mlx5_1="lost")
    for host in fleet.hosts[::2]:
        rdma_parts.install_tools(host)
    (first, *_) = found = run_rdma_steps(fleet)

    assert first[0] is FAIL
    assert "mlx5_1 port 1" in first[1]
    assert "Completion with error at client: Failed status 12" in first[1]
    assert "mlx5_0" not in first[1]
    assert OK not in [grade for grade, _, _ in found]


def test_a_hang_ends_at_its_deadline(fleet: SshFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that hangs fails that path, and is ended on both sides."""
    monkeypatch.setattr(rdma_rounds, "TRY_S", 6.0)  # the tool may start late on a busy machine
    rdma_parts.install_tools(fleet.hosts[0], mlx5_0="hang")
    found = run_rdma_steps(fleet, 2)

    assert found == [
        (FAIL, "RDMA over node01 mlx5_0 port 1 -> node02 mlx5_0 port 1 failed: not finished within 6 s",
         ("node01", "node02"))
    ]  # fmt: skip


def test_a_firewall_is_no_fault_of_rdma(fleet: SshFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tools' TCP connection is dropped, RDMA is unknown: a hang of that is not a lost port."""
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
        ((grade, seen, _),) = run_rdma_steps(fleet, 2)
    finally:
        subprocess.run([*nft, "flush", "ruleset"], check=True)

    assert grade is UNKNOWN
    assert seen.endswith("and 1 more: no connection reached its TCP port 18515")


def test_a_port_that_is_slow(fleet: SshFleet) -> None:
    """A rate below half of the others', also alone, is reported with both figures."""
    for host in fleet.hosts:
        rdma_parts.install_tools(host, all="97.58")
    rdma_parts.install_tools(fleet.hosts[0], mlx5_0="97.58", mlx5_1="12.10")
    found = run_rdma_steps(fleet)

    assert {grade for grade, _, _ in found} == {WARN, OK}
    assert "12.1 Gbit/s; 97.6 Gbit/s is typical" in found[0][1]
    assert found[0][1].startswith("node01 mlx5_1 port 1 -> ")


@pytest.mark.parametrize("tool", ("ib_send_lat", "ib_read_lat", "ibv_rc_pingpong", "rping"))
def test_each_tool(fleet: SshFleet, tool: str) -> None:
    """The first common tool is used, with options that the real one has; over RoCE with a version 2 GID."""
    for host in fleet.hosts[:2]:
        rdma_parts.write_rdma_devices(host, "mlx5_0", "mlx5_1", layer="Ethernet")
        rdma_parts.install_tools(host, (tool,))
    ((grade, seen, _),) = run_rdma_steps(fleet, 2)

    assert grade is OK
    assert f"2 paths: {tool}" in seen


def test_tools_or_devices_that_lack(fleet: SshFleet) -> None:
    """A missing tool is unknown, one host without a port is a warning."""
    rdma_parts.install_tools(fleet.hosts[2], ())
    without = run_rdma_steps(fleet)
    rdma_parts.install_tools(fleet.hosts[2])
    rdma_parts.write_rdma_devices(fleet.hosts[2], "mlx5_0", "mlx5_1", state="1: DOWN")
    down = run_rdma_steps(fleet)
    rdma_parts.install_tools(fleet.hosts[0], all="denied")
    denied = run_rdma_steps(fleet, 2)

    assert without == [
        (UNKNOWN, "RDMA could not be tested: none of ib_write_bw, ib_send_lat, ib_read_lat, "
         "ibv_rc_pingpong, rping found on node03", ("node03",))
    ]  # fmt: skip
    assert down[0] == (WARN, "node03 has no active RDMA port, but node[01-02] does", ("node03",))
    assert [(grade, seen.rpartition(": ")[2]) for grade, seen, _ in denied] == [
        (UNKNOWN, "Couldn't get context for mlx5_0")
    ]


def test_the_agent_leaves_nobody_listening(tmp_path: Path) -> None:
    """The agent's tools end with it, even if their results were not collected."""
    mark = tmp_path / "pid"
    with start_agent("sh", "-c", sessions.render_command()) as talk:
        argv = ["sh", "-c", f"echo $$ >{mark}; exec sleep 100"]
        assert talk.ask_agent("serve", [["0", argv, False]], 30)["answer"]["0"] > 0
        pid = int(mark.read_text())
        assert Path(f"/proc/{pid}").exists()

    assert "sleep" not in _read_command(pid)

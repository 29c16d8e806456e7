"""doctor --hosts --between over real ssh: hosts with faults that show between them only."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost

pytestmark = pytest.mark.real

MACHINE, SIZE = "atlas-800t-a2", 3
ALL = f"node[01-{SIZE:02d}]"
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def add_addresses(host: SshHost) -> None:
    """Give the host and its cards addresses that no other host has."""
    for path in (p for p in host.sysroot.rglob("*") if p.is_file() and not p.is_symlink()):
        text = path.read_text(errors="surrogateescape")
        own = text.replace("192.168.100.", f"192.168.{host.number}.").replace("10.0.0.8", f"10.0.0.{host.number}")
        if own != text:
            path.write_text(own, errors="surrogateescape")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    with fleet_parts.start_fleet(tmp_path_factory.mktemp("between"), SIZE, MACHINE) as made:
        for host in made.hosts:
            add_addresses(host)
        write_hosts_file(made)
        yield made


def write_hosts_file(fleet: SshFleet, **other: str) -> None:
    """Mount a hosts file with all names over the system's; `other` are names with another address."""
    for host in fleet.hosts:
        told = {one.name: one.address for one in fleet.hosts} | (other if host is fleet.hosts[0] else {})
        (host.folder / "hosts").write_text("".join(f"{where} {name}\n" for name, where in told.items()))
        if not host.before:
            restart_sshd(fleet, host, before=f"mount --bind {host.folder / 'hosts'} /etc/hosts")


@pytest.fixture
def fleet(many: SshFleet) -> Iterator[SshFleet]:
    yield many
    write_hosts_file(many)
    for host in many.hosts:
        shutil.rmtree(host.bin)
        host.bin.mkdir()
        subprocess.run(["ip", "netns", "exec", host.space, "nft", "flush", "ruleset"], check=False, capture_output=True)
        subprocess.run(
            ["tc", "-n", host.space, "qdisc", "del", "dev", "eth0", "root"], check=False, capture_output=True
        )
        if host.child is None or host.variables:
            restart_sshd(many, host)


def restart_sshd(fleet: SshFleet, host: SshHost, before: str | None = None, **variables: str) -> None:
    host.stop_sshd()
    host.variables, host.before = variables, host.before if before is None else before
    host.start_sshd(fleet.key)
    fleet.wait_for_sshd(host)


def run_between(fleet: SshFleet, *words: str) -> tuple[int, dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the exit code, the document, and the fleet's findings by name."""
    done = fleet.run_envcheck("doctor", "--hosts", ALL, "--between", "--json", *words)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in said["findings"]:
        found.setdefault(one["name"], []).append(one)
    return done.returncode, said, found


def list_problems(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, str]]:
    """Return the problems except speed: hosts here share two cores with everything else."""
    speed = ("fleet.bandwidth", "fleet.latency")
    bad = {n: one for n, all_of in found.items() for one in all_of if one["status"] not in ("OK", "NOT_APPLICABLE")}
    return {name: (one["status"], one["seen"]) for name, one in bad.items() if name not in speed}


def test_all_well(fleet: SshFleet, tmp_path: Path) -> None:
    """Names, clocks, ports, packets and speeds are reported; nothing stays on a host."""
    code, _, found = run_between(fleet, "--rank-table", str(tmp_path / "hccl.json"))

    assert list_problems(found) == {}
    assert {"fleet.names", "fleet.addresses", "fleet.clock", "fleet.open", "fleet.packets", "fleet.ranks"} <= set(found)
    assert found["fleet.open"][0]["seen"] == "ports 29500, 60000-60015: reachable between all hosts"
    assert found["fleet.packets"][0]["seen"] == "packets of 1500 bytes arrive without fragmentation"
    assert code == 0
    for host in fleet.hosts:
        assert wait_until_closed(host)


def wait_until_closed(host: SshHost) -> bool:
    """Wait until only sshd listens there, a moment after the connection ended."""
    for _ in range(100):
        done = subprocess.run(["ip", "netns", "exec", host.space, "ss", "-Hltn"], capture_output=True, text=True)
        if [line.split()[3].rpartition(":")[2] for line in done.stdout.splitlines()] == ["22"]:
            return True
        time.sleep(0.1)
    return False


def test_a_firewalled_port(fleet: SshFleet) -> None:
    """Ports that one host's firewall drops are reported with the host; the others' are open."""
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")
    if not nft:
        pytest.skip("a firewall wants nft (nftables)")
    rules = "table inet t {\nchain c {\ntype filter hook input priority 0;\ntcp dport 60004-60007 drop;\n}\n}\n"
    done = subprocess.run(["ip", "netns", "exec", fleet.hosts[2].space, nft, "-f", "-"], input=rules, text=True)
    if done.returncode:
        pytest.skip("this kernel has no nftables")

    code, said, found = run_between(fleet)

    assert list_problems(found) == {"fleet.open": ("FAIL", "cannot reach ports 60004-60007 of node03: timed out")}
    assert code == 1
    assert all(one["verdict"] == "OK" for one in said["hosts"].values())


def test_a_port_that_is_taken(fleet: SshFleet) -> None:
    """A program on a collective's port is reported with its host."""
    program = "import socket,time; s=socket.socket(); s.bind(('',60003)); s.listen(); time.sleep(100)"
    child = subprocess.Popen(["ip", "netns", "exec", fleet.hosts[1].space, sys.executable, "-c", program])
    try:
        for _ in range(100):
            done = subprocess.run(["ip", "netns", "exec", fleet.hosts[1].space, "ss", "-Hltn"], capture_output=True)
            if b":60003" in done.stdout:
                break
            time.sleep(0.05)
        _, _, found = run_between(fleet)
    finally:
        child.kill()
        child.wait()

    assert list_problems(found) == {"fleet.taken": ("FAIL", "cannot open port 60003 on node02: Address already in use")}


def test_a_name_that_leads_elsewhere(fleet: SshFleet) -> None:
    """A host whose hosts file maps another's name to loopback is reported with a command; so is one that maps an
    address to another host's name.
    """
    write_hosts_file(fleet, node02="127.0.1.1", node03="10.255.255.1")
    with (fleet.hosts[0].folder / "hosts").open("a") as file:
        file.write(f"{fleet.hosts[1].address} node03.site\n")
    _, _, found = run_between(fleet)
    told = sorted(one["seen"] for whole in found["fleet.names"] for one in (whole, *whole["details"]))

    assert told == [
        "on node01, the name of node02 resolves to 127.0.1.1 (loopback)",
        "on node01, the name of node03 resolves to 10.255.255.1, not an address of this host",
    ]
    assert {one["status"] for one in found["fleet.names"]} == {"FAIL"}
    (back,) = (one["seen"] for one in found["fleet.addresses"] if one["status"] == "WARN")
    assert back == "on node01, the address of node02 resolves back to node03.site, the name of node03"
    assert "getent hosts node02" in found["fleet.names"][0]["remedy"]["commands"]


@pytest.mark.parametrize("words", (("--between",), ()), ids=("between", "in-passing"))
def test_a_skewed_clock(fleet: SshFleet, words: tuple[str, ...]) -> None:
    """A clock one minute ahead is reported with its host, to a tenth of a second."""
    found = sorted(str(path) for path in Path("/").glob(FAKETIME.lstrip("/")))
    if not found:
        pytest.skip("a skewed clock wants libfaketime")
    restart_sshd(fleet, fleet.hosts[1], LD_PRELOAD=found[0], FAKETIME="+60s", FAKETIME_DONT_FAKE_MONOTONIC="1")
    done = fleet.run_envcheck("doctor", "--hosts", ALL, "--json", *words)
    said = json.loads(done.stdout)
    clock = [one for one in said["findings"] if one["name"] == "fleet.clock"]

    assert done.returncode == 1
    assert [one["status"] for one in clock] == ["FAIL"]
    assert clock[0]["seen"].startswith(
        "clock offset from the majority: node02 60.0 s" if words else "clock offset from the majority: node02 "
    )
    assert clock[0]["seen"].endswith(" ahead")


def test_packets_that_do_not_pass(fleet: SshFleet) -> None:
    """A host that sends larger packets than the path carries is reported, though small ones pass."""
    host = fleet.hosts[2]
    fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "mtu", "9000")
    try:
        _, _, found = run_between(fleet)
    finally:
        fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "mtu", "1500")

    assert list_problems(found) == {
        "fleet.packets": ("FAIL", "packets of 9000 bytes from node03 do not reach node01; small packets do")
    }


def test_a_slow_host(fleet: SshFleet) -> None:
    """A host with a 20 Mbit/s port is the outlier; its partners are not."""
    tc = ["tc", "-n", fleet.hosts[2].space, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit"]
    done = subprocess.run([*tc, "burst", "32kb", "latency", "400ms"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this kernel shapes no traffic: {done.stderr.strip()[:80]}")
    _, _, found = run_between(fleet)
    told = [one["seen"] for one in found["fleet.bandwidth"]]

    assert len(told) == 1
    assert told[0].startswith(("node03: ", "node03 -> "))
    assert "is typical" in told[0]


SLEEPY = '#!/bin/sh\ncase "$*" in *zlib*) touch {mark}; exec sleep 100;; esac\nexec {python} "$@"\n'


def make_sleepy(host: SshHost) -> Path:
    """Let it answer the doctor, but sleep during tests between hosts."""
    mark = host.folder / "begun"
    mark.unlink(missing_ok=True)
    host.write_tool("python3", SLEEPY.format(mark=mark, python=sys.executable))
    return mark


def test_a_host_that_goes_away(fleet: SshFleet) -> None:
    """A host that disappears after it responded is reported; the others are tested."""
    mark = make_sleepy(fleet.hosts[1])
    argv = [sys.executable, "-m", "envcheck", "doctor", "--hosts", ALL, "--between", "--json"]
    child = subprocess.Popen(
        argv,
        cwd=fleet_parts.ROOT,
        env=fleet.make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if mark.exists():
            break
        time.sleep(0.05)
    fleet.hosts[1].stop_sshd()
    out, _ = child.communicate(timeout=120)
    found = [(one["name"], one["seen"]) for one in json.loads(out)["findings"] if one["status"] == "FAIL"]

    assert [name for name, _ in found] == ["fleet.between"]
    assert found[0][1].startswith("node02 could not be tested with the other hosts: ")
    assert any(one["name"] == "fleet.open" and one["status"] == "OK" for one in json.loads(out)["findings"])


def test_a_host_that_hangs(fleet: SshFleet) -> None:
    """A host that stops responding is dropped at its deadline, and reported."""
    make_sleepy(fleet.hosts[2])
    code, _, found = run_between(fleet, "--host-timeout", "5")

    assert list_problems(found) == {
        "fleet.between": ("FAIL", "node03 could not be tested with the other hosts: no response within 5 s")
    }
    assert found["fleet.open"][0]["status"] == "OK"
    assert code == 1


PING = """#!/bin/sh
case "$2" in {lost}) received=0; loss=100.00;; *) received=3; loss=0.00;; esac
echo "device $2 PING $6"
echo "3 packets transmitted, $received received, $loss% packet loss"
"""


def test_cards_reach_cards(fleet: SshFleet) -> None:
    """With hccn_tool each card pings its counterpart on the next host; a card that fails is reported."""
    for host in fleet.hosts:
        host.write_tool("hccn_tool", PING.format(lost="5" if host.number == 2 else "none"))
    _, _, found = run_between(fleet)

    assert list_problems(found) == {
        "fleet.hccn": ("FAIL", "cards 5 of node02 cannot reach the cards of node03 through their own ports")
    }


def test_a_table_of_ranks(fleet: SshFleet, tmp_path: Path) -> None:
    """A rank table is written from the ports' addresses; verifying it passes, and with two cards swapped it fails."""
    path = tmp_path / "hccl.json"
    words = ("doctor", "--hosts", "node[01-02]", "--rank-table", str(path), "--json")
    first = fleet.run_envcheck(*words)
    table = json.loads(path.read_text())
    second = fleet.run_envcheck(*words)
    one, other = table["server_list"][1]["device"][:2]
    one["device_ip"], other["device_ip"] = other["device_ip"], one["device_ip"]
    path.write_text(json.dumps(table))
    third = json.loads(fleet.run_envcheck(*words).stdout)

    assert (first.returncode, second.returncode) == (0, 0)
    assert [d["rank_id"] for s in table["server_list"] for d in s["device"]] == [str(n) for n in range(16)]
    assert table["server_list"][1]["device"][2]["device_ip"] == "192.168.2.102"
    assert "card 0 of node02: expected 192.168.2.101, got 192.168.2.100" in third["findings"][0]["seen"]
    assert third["findings"][0]["status"] == "FAIL"


@pytest.mark.parametrize(("sign", "code"), ((signal.SIGINT, 130), (signal.SIGTERM, 143)), ids=("SIGINT", "SIGTERM"))
def test_ends_all(fleet: SshFleet, sign: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end the tests and every ssh."""
    mark = make_sleepy(fleet.hosts[1])
    argv = [sys.executable, "-m", "envcheck", "doctor", "--hosts", ALL, "--between"]
    child = subprocess.Popen(argv, cwd=fleet_parts.ROOT, env=fleet.make_environment(), stdout=subprocess.DEVNULL)
    for _ in range(600):
        if mark.exists():
            break
        time.sleep(0.05)
    began = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(sign)
    child.wait(300)

    assert began
    assert child.returncode == code
    assert not [one for one in began if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

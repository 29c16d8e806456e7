"""doctor --hosts --between over real ssh: hosts with a fault each that shows between them alone."""

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
from tests.envcheck.fleet.fleet_parts import Fleet, Host

pytestmark = pytest.mark.real

MACHINE, SIZE = "atlas-800t-a2", 3
ALL = f"node[01-{SIZE:02d}]"
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def addressed(host: Host) -> None:
    """It and its cards have addresses of their own, which no other host's have."""
    for path in (p for p in host.sysroot.rglob("*") if p.is_file() and not p.is_symlink()):
        text = path.read_text(errors="surrogateescape")
        own = text.replace("192.168.100.", f"192.168.{host.number}.").replace("10.0.0.8", f"10.0.0.{host.number}")
        if own != text:
            path.write_text(own, errors="surrogateescape")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_parts.fleet(tmp_path_factory.mktemp("between"), SIZE, MACHINE) as made:
        for host in made.hosts:
            addressed(host)
        names(made)
        yield made


def names(fleet: Fleet, **other: str) -> None:
    """All hosts know all by name, by a file of hosts that lies over the system's; `other` are names led elsewhere."""
    for host in fleet.hosts:
        told = {one.name: one.address for one in fleet.hosts} | (other if host is fleet.hosts[0] else {})
        (host.folder / "hosts").write_text("".join(f"{where} {name}\n" for name, where in told.items()))
        if not host.before:
            again(fleet, host, before=f"mount --bind {host.folder / 'hosts'} /etc/hosts")


@pytest.fixture
def fleet(many: Fleet) -> Iterator[Fleet]:
    yield many
    names(many)
    for host in many.hosts:
        shutil.rmtree(host.bin)
        host.bin.mkdir()
        subprocess.run(["ip", "netns", "exec", host.space, "nft", "flush", "ruleset"], check=False, capture_output=True)
        subprocess.run(
            ["tc", "-n", host.space, "qdisc", "del", "dev", "eth0", "root"], check=False, capture_output=True
        )
        if host.child is None or host.variables:
            again(many, host)


def again(fleet: Fleet, host: Host, before: str | None = None, **variables: str) -> None:
    host.stop()
    host.variables, host.before = variables, host.before if before is None else before
    host.start(fleet.key)
    fleet.wait(host)


def between(fleet: Fleet, *words: str) -> tuple[int, dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The exit code, the document, and the fleet's own findings by name."""
    done = fleet.run("doctor", "--hosts", ALL, "--between", "--json", *words)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in said["findings"]:
        found.setdefault(one["name"], []).append(one)
    return done.returncode, said, found


def wrong(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, str]]:
    """What is bad but speed: hosts here share two cores with whatever else runs."""
    speed = ("fleet.bandwidth", "fleet.latency")
    bad = {n: one for n, all_of in found.items() for one in all_of if one["status"] not in ("OK", "NOT_APPLICABLE")}
    return {name: (one["status"], one["seen"]) for name, one in bad.items() if name not in speed}


def test_all_well(fleet: Fleet, tmp_path: Path) -> None:
    """Names, clocks, ports, packets and speeds are told; nothing of it stays on a host."""
    code, _, found = between(fleet, "--rank-table", str(tmp_path / "hccl.json"))

    assert wrong(found) == {}
    assert {"fleet.names", "fleet.addresses", "fleet.clock", "fleet.open", "fleet.packets", "fleet.ranks"} <= set(found)
    assert found["fleet.open"][0]["seen"] == "ports 29500, 60000-60015: open from host to host"
    assert found["fleet.packets"][0]["seen"] == "packets of 1500 bytes pass uncut"
    assert code == 0
    for host in fleet.hosts:
        assert until_closed(host)


def until_closed(host: Host) -> bool:
    """Its sshd alone listens there, a moment after the connection ended at the latest."""
    for _ in range(100):
        done = subprocess.run(["ip", "netns", "exec", host.space, "ss", "-Hltn"], capture_output=True, text=True)
        if [line.split()[3].rpartition(":")[2] for line in done.stdout.splitlines()] == ["22"]:
            return True
        time.sleep(0.1)
    return False


def test_a_firewalled_port(fleet: Fleet) -> None:
    """Ports that one host's firewall drops are named with the host; the others' are open."""
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")
    if not nft:
        pytest.skip("a firewall wants nft (nftables)")
    rules = "table inet t {\nchain c {\ntype filter hook input priority 0;\ntcp dport 60004-60007 drop;\n}\n}\n"
    done = subprocess.run(["ip", "netns", "exec", fleet.hosts[2].space, nft, "-f", "-"], input=rules, text=True)
    if done.returncode:
        pytest.skip("this kernel has no nftables")

    code, said, found = between(fleet)

    assert wrong(found) == {"fleet.open": ("FAIL", "ports 60004-60007 of node03 cannot be reached: timed out")}
    assert code == 1
    assert all(one["verdict"] == "OK" for one in said["hosts"].values())


def test_a_port_that_is_taken(fleet: Fleet) -> None:
    """A program that sits on a collective's port is told with its host."""
    program = "import socket,time; s=socket.socket(); s.bind(('',60003)); s.listen(); time.sleep(100)"
    child = subprocess.Popen(["ip", "netns", "exec", fleet.hosts[1].space, sys.executable, "-c", program])
    try:
        for _ in range(100):
            done = subprocess.run(["ip", "netns", "exec", fleet.hosts[1].space, "ss", "-Hltn"], capture_output=True)
            if b":60003" in done.stdout:
                break
            time.sleep(0.05)
        _, _, found = between(fleet)
    finally:
        child.kill()
        child.wait()

    assert wrong(found) == {"fleet.taken": ("FAIL", "port 60003 on node02 cannot be opened: Address already in use")}


def test_a_name_that_leads_elsewhere(fleet: Fleet) -> None:
    """A host whose file leads another's name to loopback is named, with what to look at; so is one whose file leads an
    address back to another's name."""
    names(fleet, node02="127.0.1.1", node03="10.255.255.1")
    with (fleet.hosts[0].folder / "hosts").open("a") as file:
        file.write(f"{fleet.hosts[1].address} node03.site\n")
    _, _, found = between(fleet)
    told = sorted(one["seen"] for whole in found["fleet.names"] for one in (whole, *whole["details"]))

    assert told == [
        "on node01 the name of node02 leads to 127.0.1.1, loopback",
        "on node01 the name of node03 leads to 10.255.255.1, which is not its address",
    ]
    assert {one["status"] for one in found["fleet.names"]} == {"FAIL"}
    (back,) = (one["seen"] for one in found["fleet.addresses"] if one["status"] == "WARN")
    assert back == "on node01 the address of node02 leads back to node03.site, which is node03"
    assert "getent hosts node02" in found["fleet.names"][0]["remedy"]["commands"]


@pytest.mark.parametrize("words", (("--between",), ()), ids=("between", "in-passing"))
def test_a_skewed_clock(fleet: Fleet, words: tuple[str, ...]) -> None:
    """A clock that is a minute ahead is named with its host; by the trial to a tenth of a second."""
    found = sorted(str(path) for path in Path("/").glob(FAKETIME.lstrip("/")))
    if not found:
        pytest.skip("a skewed clock wants libfaketime")
    again(fleet, fleet.hosts[1], LD_PRELOAD=found[0], FAKETIME="+60s", FAKETIME_DONT_FAKE_MONOTONIC="1")
    done = fleet.run("doctor", "--hosts", ALL, "--json", *words)
    said = json.loads(done.stdout)
    clock = [one for one in said["findings"] if one["name"] == "fleet.clock"]

    assert done.returncode == 1
    assert [one["status"] for one in clock] == ["FAIL"]
    assert clock[0]["seen"].startswith("clocks: node02 60.0 s ahead" if words else "clocks: node02 ")
    assert clock[0]["seen"].endswith(" ahead of most")


def test_packets_that_do_not_pass(fleet: Fleet) -> None:
    """A host that sends larger packets than the way takes is told, though small ones pass."""
    host = fleet.hosts[2]
    fleet_parts.ip("-n", host.space, "link", "set", "eth0", "mtu", "9000")
    try:
        _, _, found = between(fleet)
    finally:
        fleet_parts.ip("-n", host.space, "link", "set", "eth0", "mtu", "1500")

    assert wrong(found) == {
        "fleet.packets": ("FAIL", "packets of 9000 bytes from node03 do not reach node01, small ones do")
    }


def test_a_slow_host(fleet: Fleet) -> None:
    """A host whose port gives 20 Mbit/s is the outlier; its partners are not."""
    tc = ["tc", "-n", fleet.hosts[2].space, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit"]
    done = subprocess.run([*tc, "burst", "32kb", "latency", "400ms"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this kernel shapes no traffic: {done.stderr.strip()[:80]}")
    _, _, found = between(fleet)
    told = [one["seen"] for one in found["fleet.bandwidth"]]

    assert len(told) == 1
    assert told[0].startswith(("node03: ", "node03 -> "))
    assert "is usual" in told[0]


SLEEPY = '#!/bin/sh\ncase "$*" in *zlib*) touch {mark}; exec sleep 100;; esac\nexec {python} "$@"\n'


def sleepy(host: Host) -> Path:
    """It answers the doctor, and sleeps when it is to be tried."""
    mark = host.folder / "begun"
    mark.unlink(missing_ok=True)
    host.tool("python3", SLEEPY.format(mark=mark, python=sys.executable))
    return mark


def test_a_host_that_goes_away(fleet: Fleet) -> None:
    """One that dies after it answered is told; the others are tried all the same."""
    mark = sleepy(fleet.hosts[1])
    argv = [sys.executable, "-m", "envcheck", "doctor", "--hosts", ALL, "--between", "--json"]
    child = subprocess.Popen(
        argv, cwd=fleet_parts.ROOT, env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):
        if mark.exists():
            break
        time.sleep(0.05)
    fleet.hosts[1].stop()
    out, _ = child.communicate(timeout=120)
    found = [(one["name"], one["seen"]) for one in json.loads(out)["findings"] if one["status"] == "FAIL"]

    assert [name for name, _ in found] == ["fleet.between"]
    assert found[0][1].startswith("node02 could not be tried with the others: ")
    assert any(one["name"] == "fleet.open" and one["status"] == "OK" for one in json.loads(out)["findings"])


def test_a_host_that_hangs(fleet: Fleet) -> None:
    """One that answers no more is left at its deadline, and told."""
    sleepy(fleet.hosts[2])
    code, _, found = between(fleet, "--deadline", "5")

    assert wrong(found) == {
        "fleet.between": ("FAIL", "node03 could not be tried with the others: no answer within 5 s")
    }
    assert found["fleet.open"][0]["status"] == "OK"
    assert code == 1


PING = """#!/bin/sh
case "$2" in {lost}) received=0; loss=100.00;; *) received=3; loss=0.00;; esac
echo "device $2 PING $6"
echo "3 packets transmitted, $received received, $loss% packet loss"
"""


def test_cards_reach_cards(fleet: Fleet) -> None:
    """Where hccn_tool is, each card pings its like on the next host; a card that does not come through is named."""
    for host in fleet.hosts:
        host.tool("hccn_tool", PING.format(lost="5" if host.number == 2 else "none"))
    _, _, found = between(fleet)

    assert wrong(found) == {"fleet.hccn": ("FAIL", "cards 5 of node02 do not reach those of node03 by their own ports")}


def test_a_table_of_ranks(fleet: Fleet, tmp_path: Path) -> None:
    """Written from what the ports say; the same file is right then; with two cards swapped it is not."""
    path = tmp_path / "hccl.json"
    words = ("doctor", "--hosts", "node[01-02]", "--rank-table", str(path), "--json")
    first = fleet.run(*words)
    table = json.loads(path.read_text())
    second = fleet.run(*words)
    one, other = table["server_list"][1]["device"][:2]
    one["device_ip"], other["device_ip"] = other["device_ip"], one["device_ip"]
    path.write_text(json.dumps(table))
    third = json.loads(fleet.run(*words).stdout)

    assert (first.returncode, second.returncode) == (0, 0)
    assert [d["rank_id"] for s in table["server_list"] for d in s["device"]] == [str(n) for n in range(16)]
    assert table["server_list"][1]["device"][2]["device_ip"] == "192.168.2.102"
    assert "card 0 of node02 has 192.168.2.100, the table says 192.168.2.101" in third["findings"][0]["seen"]
    assert third["findings"][0]["status"] == "FAIL"


@pytest.mark.parametrize(("sign", "code"), ((signal.SIGINT, 130), (signal.SIGTERM, 143)), ids=("SIGINT", "SIGTERM"))
def test_ends_all(fleet: Fleet, sign: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end the trial and every ssh of it."""
    mark = sleepy(fleet.hosts[1])
    argv = [sys.executable, "-m", "envcheck", "doctor", "--hosts", ALL, "--between"]
    child = subprocess.Popen(argv, cwd=fleet_parts.ROOT, env=fleet.environment(), stdout=subprocess.DEVNULL)
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

"""doctor --hosts over real ssh: hosts as network namespaces, each with a fault of its own, which is named."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet, Host, simulate

pytestmark = pytest.mark.real

MACHINE = "atlas-800t-a2"
ALL = "node[01-08]"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_parts.fleet(tmp_path_factory.mktemp("fleet"), 8, MACHINE) as made:
        yield made


@pytest.fixture
def fleet(many: Fleet) -> Iterator[Fleet]:
    """Eight hosts that are well when a test begins."""
    yield many
    many.know(many.hosts)
    many.configure()
    for host in many.hosts:
        shutil.rmtree(host.bin)
        host.bin.mkdir()
        host.login_script("")
        if host.child is None or host.variables or host.settings:
            host.stop()
            host.variables, host.settings = {}, ()
            host.start(many.key)
            many.wait(host)
        if (host.folder / "other").exists():
            (host.folder / "other").unlink()
            simulate(host, MACHINE)


def other_machine(host: Host, *wishes: str) -> None:
    simulate(host, MACHINE, *wishes)
    (host.folder / "other").touch()


def again(fleet: Fleet, host: Host, variables: dict[str, str], *settings: str) -> None:
    """Its sshd anew, with these variables and settings."""
    host.stop()
    host.variables, host.settings = variables, settings
    host.start(fleet.key)
    fleet.wait(host)


def doctor(fleet: Fleet, *words: str, hosts: str = ALL) -> tuple[int, dict[str, Any]]:
    done = fleet.run("doctor", "--hosts", hosts, "--json", *words)
    assert done.stdout, done.stderr
    assert "Client instance" not in done.stderr  # ClusterShell's own warnings are of no use to anybody here
    return done.returncode, json.loads(done.stdout)


def reach(said: dict[str, Any], host: str) -> dict[str, Any]:
    found: dict[str, Any] = next(f for f in said["hosts"][host]["findings"] if f["name"] == "fleet.reach")
    return found


def odd(said: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {v["subject"]: [(one["value"], one["hosts"]) for one in v["values"]] for v in said["odd"]}


def test_all_well(fleet: Fleet) -> None:
    """Eight hosts alike: fit, all answered, nothing odd, and what is common is told with all of them."""
    code, said = doctor(fleet)

    assert (code, said["verdict"], said["odd"]) == (0, "OK", [])
    assert all(host["answered"] for host in said["hosts"].values())
    assert [v["values"][0]["hosts"] for v in said["common"] if v["subject"] == "cards"] == [ALL]


def test_nothing_stays_on_a_host(fleet: Fleet) -> None:
    """A look leaves no file there, and needs no place for one: a host whose home is read-only answers as well."""
    first = fleet.hosts[0]
    before = sorted(first.home.rglob("*"))
    doctor(fleet, hosts="node01")

    assert sorted(first.home.rglob("*")) == before
    again(fleet, first, {"XDG_CACHE_HOME": "/proc/nowhere"})
    assert doctor(fleet, hosts="node01")[0] == 0


def no_python(fleet: Fleet, host: Host) -> None:
    again(fleet, host, {"PATH": "/nowhere"})


def old_python(fleet: Fleet, host: Host) -> None:
    real = shutil.which("python3")
    host.tool("python3", f'#!/bin/sh\nexec {real} -I -S -c "import sys; sys.version_info = (3, 5, 3); $4"\n')


def hung_probe(fleet: Fleet, host: Host) -> None:
    host.tool("python3", "#!/bin/sh\nexec sleep 300\n")


def unknown_key(fleet: Fleet, host: Host) -> None:
    fleet.know([one for one in fleet.hosts if one is not host])


def changed_key(fleet: Fleet, host: Host) -> None:
    known = fleet.key.parent / "known_hosts"
    other = (fleet.hosts[1].folder / "key.pub").read_text().split()[1]
    own = (host.folder / "key.pub").read_text().split()[1]
    known.write_text(
        known.read_text().replace(f"{host.address} ssh-ed25519 {own}", f"{host.address} ssh-ed25519 {other}")
    )


def down(fleet: Fleet, host: Host) -> None:
    host.stop()


def asks(fleet: Fleet, host: Host) -> None:
    again(fleet, host, {}, "AuthorizedKeysFile none", "PasswordAuthentication yes")


def refuses(fleet: Fleet, host: Host) -> None:
    again(fleet, host, {}, "AuthorizedKeysFile none", "KbdInteractiveAuthentication no")


def junk(fleet: Fleet, host: Host) -> None:
    host.login_script("echo Welcome to the cluster; printf 'no end of line'\n")


def only_junk(fleet: Fleet, host: Host) -> None:
    host.login_script("echo This account is closed; exit 0\n")


def flood(fleet: Fleet, host: Host) -> None:
    host.login_script("yes | tr -d '\\n'; exit 0\n")


def begs(fleet: Fleet, host: Host) -> None:
    host.tool("python3", "#!/bin/sh\nyes 'envcheck-fleet want'\n")


def deaf(fleet: Fleet, host: Host) -> None:
    wrapper = fleet.home / "bin" / "ssh"
    deaf = f"case \"$*\" in *{host.name}*) exec <&-; echo 'envcheck-fleet want'; sleep 1; exit 0;; esac"
    wrapper.write_text(wrapper.read_text().replace("\nexec", f"\n{deaf}\nexec"))


def crash(fleet: Fleet, host: Host) -> None:
    host.tool("python3", "#!/bin/sh\necho 'python3: error while loading libz' >&2; exit 127\n")


@pytest.mark.parametrize(
    ("fault", "status", "seen", "evidence"),
    (
        (no_python, "FAIL", "it has no python3", ""),
        (old_python, "FAIL", "its python3 is too old (3.5)", ""),
        (hung_probe, "FAIL", "no answer within", ""),
        (unknown_key, "FAIL", "its host key is unknown", "Host key verification failed."),
        (changed_key, "FAIL", "its host key is not the one that this user knows", "Host key verification failed."),
        (down, "FAIL", "nobody listens at its ssh port", "Connection refused"),
        (asks, "FAIL", "it asks for a password, and nobody is there", "Permission denied"),
        (refuses, "FAIL", "it accepts none of this user's keys", "Permission denied"),
        (junk, "WARN", "answered, and its login script prints", "Welcome to the cluster"),
        (only_junk, "UNKNOWN", "something else than a snapshot", "This account is closed"),
        (flood, "UNKNOWN", "it sent more than", ""),
        (begs, "UNKNOWN", "it sent more than", ""),
        (deaf, "UNKNOWN", "a part of a snapshot", ""),
        (crash, "UNKNOWN", "something else than a snapshot (status 127)", "error while loading libz"),
    ),
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_host_that_cannot_be_asked(
    fleet: Fleet, fault: Callable[[Fleet, Host], None], status: str, seen: str, evidence: str
) -> None:
    """It is named with the reason, ssh's own words and a way out; the other answers as if nothing were wrong."""
    fault(fleet, fleet.hosts[2])
    limit = ("--deadline", "4") if fault is hung_probe else ()

    code, said = doctor(fleet, *limit, hosts="node[01,03]")

    found = reach(said, "node03")
    assert (found["status"], code) == (status, {"FAIL": 1, "UNKNOWN": 3, "WARN": 0}[status])
    assert seen in found["seen"]
    assert evidence in "\n".join(found["evidence"])
    assert found["remedy"]["words"]
    assert said["hosts"]["node01"]["verdict"] == "OK"


def test_out_of_reach(fleet: Fleet) -> None:
    """A host behind a link that is down is told as such within the deadline."""
    host = fleet.hosts[2]
    fleet_parts.ip("-n", host.space, "link", "set", "eth0", "down")
    try:
        code, said = doctor(fleet, "--deadline", "6", hosts="node[01,03]")
    finally:
        fleet_parts.ip("-n", host.space, "link", "set", "eth0", "up")

    assert code == 1
    assert reach(said, "node03")["seen"] == "it cannot be reached"
    assert said["hosts"]["node01"]["verdict"] == "OK"


def test_through_a_jump_host(fleet: Fleet) -> None:
    """The user's own ssh configuration counts: a host that is reached through another one answers."""
    jump = f"  ProxyJump {fleet.hosts[0].name}\n"
    fleet.configure(f"Host node02\n{jump}")
    try:
        code, said = doctor(fleet, hosts="node02")
    finally:
        fleet.configure()

    assert (code, said["hosts"]["node02"]["answered"]) == (0, True)


def test_hostfile_fanout_and_exclusion(fleet: Fleet, tmp_path: Path) -> None:
    """One at a time is enough; who is excluded is not asked."""
    (tmp_path / "hosts").write_text("node[01-03]  # three\n")
    done = fleet.run("doctor", "--hostfile", str(tmp_path / "hosts"), "--exclude", "node02", "--fanout", "1", "--json")

    assert list(json.loads(done.stdout)["hosts"]) == ["node01", "node03"]
    assert done.returncode == 0


def test_each_odd_one_is_named(fleet: Fleet) -> None:
    """A driver, a card, a variable and a packet size that differ on one host each, beside one that is down."""
    other_machine(fleet.hosts[3], "driver-old")
    other_machine(fleet.hosts[4], "card-lost=3")
    asked = json.loads((fleet.hosts[5].sysroot / "ask" / "environment.json").read_text())
    other_machine(fleet.hosts[5])
    (fleet.hosts[5].sysroot / "ask" / "environment.json").write_text(json.dumps({**asked, "ATB_WORKERS": "7"}))
    network = json.loads((fleet.hosts[6].sysroot / "ask" / "network.json").read_text())
    name = next(name for name, one in network["interfaces"].items() if name != "lo" and one["mtu"])
    network["interfaces"][name]["mtu"] = 9000
    other_machine(fleet.hosts[6])
    (fleet.hosts[6].sysroot / "ask" / "network.json").write_text(json.dumps(network))
    fleet.hosts[7].stop()

    code, said = doctor(fleet)

    found = odd(said)
    driver = found["driver (Huawei Ascend)"]
    assert code == 1
    assert (driver[0][1], driver[1][1]) == ("node[01-03,05-07]", "node04")
    assert found["cards"] == [("8 × 910B3", "node[01-04,06-07]"), ("7 × 910B3", "node05")]
    assert found["ATB_WORKERS"] == [("not set", "node[01-05,07]"), ("7", "node06")]
    assert found[f"MTU of {name}"][1] == ("9000", "node07")
    assert reach(said, "node08")["status"] == "FAIL"
    assert [host for host, one in said["hosts"].items() if one["verdict"] == "FAIL"] == ["node04", "node05", "node08"]


def test_killed_in_mid_run(fleet: Fleet) -> None:
    """A host that goes away while it is asked is told so; the others are judged."""
    mark = sleeper(fleet.hosts[1])
    child = started(fleet, "doctor", "--hosts", "node[01-03]", "--json")
    until(mark.exists)
    fleet.hosts[1].stop()
    out, _ = child.communicate(timeout=60)

    said = json.loads(out)
    assert reach(said, "node02")["status"] == "FAIL"
    assert "the connection broke off" in reach(said, "node02")["seen"]
    assert [name for name, one in said["hosts"].items() if one["answered"]] == ["node01", "node03"]


@pytest.mark.parametrize(("sign", "code"), ((signal.SIGINT, 130), (signal.SIGTERM, 143)), ids=("SIGINT", "SIGTERM"))
def test_ends_all(fleet: Fleet, sign: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end envcheck, and every ssh that it had started."""
    mark = sleeper(fleet.hosts[1])
    child = started(fleet, "doctor", "--hosts", ALL)
    until(mark.exists)
    began = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(sign)
    _, err = child.communicate(timeout=120)

    assert began
    assert child.returncode == code, err
    assert not [one for one in began if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_snapshots_of_a_fleet(fleet: Fleet, tmp_path: Path) -> None:
    """A file for each host that answers, a sentence for the other; the folder is judged as the hosts were."""
    other_machine(fleet.hosts[1], "card-lost=3")
    fleet.hosts[2].stop()
    made = fleet.run("snapshot", "--hosts", "node[01-04]", "-o", str(tmp_path / "kept"))
    later = fleet.run("doctor", "--replay", str(tmp_path / "kept"), "--json")
    said = json.loads(later.stdout)
    chinese = fleet.run("snapshot", "--hosts", "node03", "-o", str(tmp_path / "none"), "--lang", "zh")

    assert made.returncode == 1
    assert "node03: nobody listens at its ssh port: ssh: connect to host" in made.stderr
    assert "  next: Start sshd there" in made.stderr and "    $ ssh -v node03 true" in made.stderr
    assert re.search("node03：.*[一-鿿].*\n  下一步：.*\n    \\$ ssh", chinese.stderr)
    assert "共 1 台主机，0 台的记录" in chinese.stderr
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["node01.json", "node02.json", "node04.json"]
    assert odd(said)["cards"][1] == ("7 × 910B3", "node02")


def sleeper(host: Host) -> Path:
    """Its python3 writes the file, and then does nothing."""
    mark = host.folder / "begun"
    mark.unlink(missing_ok=True)
    host.tool("python3", f"#!/bin/sh\ntouch {mark}\nexec sleep 100\n")
    return mark


def started(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "envcheck", *words]
    return subprocess.Popen(
        argv, cwd=fleet_parts.ROOT, env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    pytest.fail("it did not begin")

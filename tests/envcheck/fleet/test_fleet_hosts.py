"""doctor --hosts over real ssh: network namespaces as hosts, each with its own fault, which is reported."""

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
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost, simulate_host

pytestmark = pytest.mark.real

MACHINE = "atlas-800t-a2"
ALL = "node[01-08]"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    with fleet_parts.start_fleet(tmp_path_factory.mktemp("fleet"), 8, MACHINE) as made:
        yield made


@pytest.fixture
def fleet(many: SshFleet) -> Iterator[SshFleet]:
    """Return eight hosts without faults."""
    yield many
    many.write_known_hosts(many.hosts)
    many.configure_ssh()
    for host in many.hosts:
        shutil.rmtree(host.bin)
        host.bin.mkdir()
        host.write_login_script("")
        if host.child is None or host.variables or host.settings:
            host.stop_sshd()
            host.variables, host.settings = {}, ()
            host.start_sshd(many.key)
            many.wait_for_sshd(host)
        if (host.folder / "other").exists():
            (host.folder / "other").unlink()
            simulate_host(host, MACHINE)


def become_other_machine(host: SshHost, *wishes: str) -> None:
    simulate_host(host, MACHINE, *wishes)
    (host.folder / "other").touch()


def restart_sshd(fleet: SshFleet, host: SshHost, variables: dict[str, str], *settings: str) -> None:
    """Restart sshd with these variables and settings."""
    host.stop_sshd()
    host.variables, host.settings = variables, settings
    host.start_sshd(fleet.key)
    fleet.wait_for_sshd(host)


def run_doctor(fleet: SshFleet, *words: str, hosts: str = ALL) -> tuple[int, dict[str, Any]]:
    done = fleet.run_envcheck("doctor", "--hosts", hosts, "--json", *words)
    assert done.stdout, done.stderr
    assert "Client instance" not in done.stderr  # ClusterShell's own warnings are hidden
    return done.returncode, json.loads(done.stdout)


def find_reach_finding(said: dict[str, Any], host: str) -> dict[str, Any]:
    found: dict[str, Any] = next(f for f in said["hosts"][host]["findings"] if f["name"] == "fleet.reach")
    return found


def list_outliers(said: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {v["subject"]: [(one["value"], one["hosts"]) for one in v["values"]] for v in said["outliers"]}


def test_all_well(fleet: SshFleet) -> None:
    """Eight equal hosts: all pass and responded, no outlier, and common findings list all of them."""
    code, said = run_doctor(fleet)

    assert (code, said["verdict"], said["outliers"]) == (0, "OK", [])
    assert all(host["answered"] for host in said["hosts"].values())
    assert [v["values"][0]["hosts"] for v in said["common"] if v["subject"] == "cards"] == [ALL]


def test_nothing_stays_on_a_host(fleet: SshFleet) -> None:
    """A check leaves no file and needs no space: a host with a read-only home responds as well."""
    first = fleet.hosts[0]
    before = sorted(first.home.rglob("*"))
    run_doctor(fleet, hosts="node01")

    assert sorted(first.home.rglob("*")) == before
    restart_sshd(fleet, first, {"XDG_CACHE_HOME": "/proc/nowhere"})
    assert run_doctor(fleet, hosts="node01")[0] == 0


def remove_python(fleet: SshFleet, host: SshHost) -> None:
    restart_sshd(fleet, host, {"PATH": "/nowhere"})


def install_old_python(fleet: SshFleet, host: SshHost) -> None:
    real = shutil.which("python3")
    host.write_tool("python3", f'#!/bin/sh\nexec {real} -I -S -c "import sys; sys.version_info = (3, 5, 3); $4"\n')


def hang_probe(fleet: SshFleet, host: SshHost) -> None:
    host.write_tool("python3", "#!/bin/sh\nexec sleep 300\n")


def forget_key(fleet: SshFleet, host: SshHost) -> None:
    fleet.write_known_hosts([one for one in fleet.hosts if one is not host])


def change_key(fleet: SshFleet, host: SshHost) -> None:
    known = fleet.key.parent / "known_hosts"
    other = (fleet.hosts[1].folder / "key.pub").read_text().split()[1]
    own = (host.folder / "key.pub").read_text().split()[1]
    known.write_text(
        known.read_text().replace(f"{host.address} ssh-ed25519 {own}", f"{host.address} ssh-ed25519 {other}")
    )


def stop_host(fleet: SshFleet, host: SshHost) -> None:
    host.stop_sshd()


def ask_for_password(fleet: SshFleet, host: SshHost) -> None:
    restart_sshd(fleet, host, {}, "AuthorizedKeysFile none", "PasswordAuthentication yes")


def refuse_login(fleet: SshFleet, host: SshHost) -> None:
    restart_sshd(fleet, host, {}, "AuthorizedKeysFile none", "KbdInteractiveAuthentication no")


def print_junk(fleet: SshFleet, host: SshHost) -> None:
    host.write_login_script("echo Welcome to the cluster; printf 'no end of line'\n")


def print_only_junk(fleet: SshFleet, host: SshHost) -> None:
    host.write_login_script("echo This account is closed; exit 0\n")


def flood_output(fleet: SshFleet, host: SshHost) -> None:
    host.write_login_script("yes | tr -d '\\n'; exit 0\n")


def request_forever(fleet: SshFleet, host: SshHost) -> None:
    host.write_tool("python3", "#!/bin/sh\nyes 'envcheck-fleet want'\n")


def close_input(fleet: SshFleet, host: SshHost) -> None:
    wrapper = fleet.home / "bin" / "ssh"
    deaf = f"case \"$*\" in *{host.name}*) exec <&-; echo 'envcheck-fleet want'; sleep 1; exit 0;; esac"
    wrapper.write_text(wrapper.read_text().replace("\nexec", f"\n{deaf}\nexec"))


def crash_python(fleet: SshFleet, host: SshHost) -> None:
    host.write_tool("python3", "#!/bin/sh\necho 'python3: error while loading libz' >&2; exit 127\n")


@pytest.mark.parametrize(
    ("fault", "status", "seen", "evidence"),
    (
        (remove_python, "FAIL", "python3 not found on the host", ""),
        (install_old_python, "FAIL", "python3 on the host is too old (3.5)", ""),
        (hang_probe, "FAIL", "no response within", ""),
        (forget_key, "FAIL", "host key unknown", "Host key verification failed."),
        (change_key, "FAIL", "host key differs from the one in known_hosts", "Host key verification failed."),
        (stop_host, "FAIL", "ssh port refuses connections", "Connection refused"),
        (ask_for_password, "FAIL", "ssh asks for a password, but envcheck runs non-interactively", "Permission denied"),
        (refuse_login, "FAIL", "host accepts none of this user's keys", "Permission denied"),
        (print_junk, "WARN", "responded, but a login script prints", "Welcome to the cluster"),
        (print_only_junk, "UNKNOWN", "returned no snapshot", "This account is closed"),
        (flood_output, "UNKNOWN", "output exceeds 8 MiB", ""),
        (request_forever, "UNKNOWN", "output exceeds 8 MiB", ""),
        (close_input, "UNKNOWN", "returned an incomplete snapshot", ""),
        (crash_python, "UNKNOWN", "returned no snapshot (exit code 127)", "error while loading libz"),
    ),
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_host_that_cannot_be_asked(
    fleet: SshFleet, fault: Callable[[SshFleet, SshHost], None], status: str, seen: str, evidence: str
) -> None:
    """It is reported with the reason, ssh's own message and a remedy; the other host is unaffected."""
    fault(fleet, fleet.hosts[2])
    limit = ("--host-timeout", "4") if fault is hang_probe else ()

    code, said = run_doctor(fleet, *limit, hosts="node[01,03]")

    found = find_reach_finding(said, "node03")
    assert (found["status"], code) == (status, {"FAIL": 1, "UNKNOWN": 3, "WARN": 0}[status])
    assert seen in found["seen"]
    assert evidence in "\n".join(found["evidence"])
    assert found["remedy"]["words"]
    assert said["hosts"]["node01"]["verdict"] == "OK"


def test_out_of_reach(fleet: SshFleet) -> None:
    """A host behind a link that is down is reported within the deadline."""
    host = fleet.hosts[2]
    fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "down")
    try:
        code, said = run_doctor(fleet, "--host-timeout", "6", hosts="node[01,03]")
    finally:
        fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "up")

    assert code == 1
    assert find_reach_finding(said, "node03")["seen"] == "host unreachable"
    assert said["hosts"]["node01"]["verdict"] == "OK"


def test_through_a_jump_host(fleet: SshFleet) -> None:
    """The user's ssh configuration applies: a host behind a jump host responds."""
    jump = f"  ProxyJump {fleet.hosts[0].name}\n"
    fleet.configure_ssh(f"Host node02\n{jump}")
    try:
        code, said = run_doctor(fleet, hosts="node02")
    finally:
        fleet.configure_ssh()

    assert (code, said["hosts"]["node02"]["answered"]) == (0, True)


def test_hostfile_fanout_and_exclusion(fleet: SshFleet, tmp_path: Path) -> None:
    """A fanout of one works; excluded hosts are not contacted."""
    (tmp_path / "hosts").write_text("node[01-03]  # three\n")
    done = fleet.run_envcheck(
        "doctor", "--hostfile", str(tmp_path / "hosts"), "--exclude", "node02", "--fanout", "1", "--json"
    )

    assert list(json.loads(done.stdout)["hosts"]) == ["node01", "node03"]
    assert done.returncode == 0


def test_each_odd_one_is_named(fleet: SshFleet) -> None:
    """A driver, a card, a variable and an MTU that differ on one host each are reported, and one host that is down."""
    become_other_machine(fleet.hosts[3], "driver-old")
    become_other_machine(fleet.hosts[4], "card-lost=3")
    asked = json.loads((fleet.hosts[5].sysroot / "ask" / "environment.json").read_text())
    become_other_machine(fleet.hosts[5])
    (fleet.hosts[5].sysroot / "ask" / "environment.json").write_text(json.dumps({**asked, "ATB_WORKERS": "7"}))
    network = json.loads((fleet.hosts[6].sysroot / "ask" / "network.json").read_text())
    name = next(name for name, one in network["interfaces"].items() if name != "lo" and one["mtu"])
    network["interfaces"][name]["mtu"] = 9000
    become_other_machine(fleet.hosts[6])
    (fleet.hosts[6].sysroot / "ask" / "network.json").write_text(json.dumps(network))
    fleet.hosts[7].stop_sshd()

    code, said = run_doctor(fleet)

    found = list_outliers(said)
    driver = found["driver (Huawei Ascend)"]
    assert code == 1
    assert (driver[0][1], driver[1][1]) == ("node[01-03,05-07]", "node04")
    assert found["cards"] == [("8 × 910B3", "node[01-04,06-07]"), ("7 × 910B3", "node05")]
    assert found["ATB_WORKERS"] == [("not set", "node[01-05,07]"), ("7", "node06")]
    assert found[f"MTU of {name}"][1] == ("9000", "node07")
    assert find_reach_finding(said, "node08")["status"] == "FAIL"
    assert [host for host, one in said["hosts"].items() if one["verdict"] == "FAIL"] == ["node04", "node05", "node08"]


def test_killed_in_mid_run(fleet: SshFleet) -> None:
    """A host that disappears during the check is reported; the others are evaluated."""
    mark = make_sleeper(fleet.hosts[1])
    child = start_envcheck(fleet, "doctor", "--hosts", "node[01-03]", "--json")
    wait_until(mark.exists)
    fleet.hosts[1].stop_sshd()
    out, _ = child.communicate(timeout=60)

    said = json.loads(out)
    assert find_reach_finding(said, "node02")["status"] == "FAIL"
    assert "connection lost" in find_reach_finding(said, "node02")["seen"]
    assert [name for name, one in said["hosts"].items() if one["answered"]] == ["node01", "node03"]


@pytest.mark.parametrize(("sign", "code"), ((signal.SIGINT, 130), (signal.SIGTERM, 143)), ids=("SIGINT", "SIGTERM"))
def test_ends_all(fleet: SshFleet, sign: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end envcheck and every ssh that it started."""
    mark = make_sleeper(fleet.hosts[1])
    child = start_envcheck(fleet, "doctor", "--hosts", ALL)
    wait_until(mark.exists)
    began = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(sign)
    _, err = child.communicate(timeout=120)

    assert began
    assert child.returncode == code, err
    assert not [one for one in began if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_snapshots_of_a_fleet(fleet: SshFleet, tmp_path: Path) -> None:
    """Each host that responds gives a file, the other a message; the folder is evaluated like the hosts."""
    become_other_machine(fleet.hosts[1], "card-lost=3")
    fleet.hosts[2].stop_sshd()
    made = fleet.run_envcheck("snapshot", "--hosts", "node[01-04]", "--output-dir", str(tmp_path / "kept"))
    later = fleet.run_envcheck("doctor", "--replay", str(tmp_path / "kept"), "--json")
    said = json.loads(later.stdout)
    chinese = fleet.run_envcheck(
        "snapshot", "--hosts", "node03", "--output-dir", str(tmp_path / "none"), "--lang", "zh"
    )

    assert made.returncode == 1
    assert "node03: ssh port refuses connections: ssh: connect to host" in made.stderr
    assert "  next: Start sshd on the host" in made.stderr and "    $ ssh -v node03 true" in made.stderr
    assert re.search("node03：.*[一-鿿].*\n  下一步：.*\n    \\$ ssh", chinese.stderr)
    assert "1 台主机中 0 台已写入" in chinese.stderr
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["node01.json", "node02.json", "node04.json"]
    assert list_outliers(said)["cards"][1] == ("7 × 910B3", "node02")


def make_sleeper(host: SshHost) -> Path:
    """Replace its python3 by one that writes the file and then sleeps."""
    mark = host.folder / "begun"
    mark.unlink(missing_ok=True)
    host.write_tool("python3", f"#!/bin/sh\ntouch {mark}\nexec sleep 100\n")
    return mark


def start_envcheck(fleet: SshFleet, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "envcheck", *words]
    return subprocess.Popen(
        argv,
        cwd=fleet_parts.ROOT,
        env=fleet.make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    pytest.fail("it did not begin")

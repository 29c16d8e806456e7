"""Thirty-two hosts over real ssh, three of them with faults; and hosts with full disks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost, simulate_host

pytestmark = pytest.mark.real

MACHINE, SIZE = "cpu", 32
ALL = f"node[01-{SIZE}]"
FULL = "mount -t tmpfs -o size=64k tmpfs {place}; dd if=/dev/zero of={place}/full bs=4k count=64 2>/dev/null || true"
# The fleet's own folder is below /tmp: move it away for now.
FULL_TMP = (
    "mount --bind {kept} /media; mount -t tmpfs -o size=128k tmpfs /tmp; mkdir -p {kept}; mount --move /media {kept}"
)
READ_ONLY = "mount --bind {place} {place}; mount -o remount,ro,bind {place}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    with fleet_parts.start_fleet(tmp_path_factory.mktemp("large"), SIZE, MACHINE) as made:
        yield made


def restart_sshd(fleet: SshFleet, host: SshHost, before: str) -> None:
    host.stop_sshd()
    host.before = before
    host.start_sshd(fleet.key)
    fleet.wait_for_sshd(host)


def change_answer(host: SshHost, name: str, **more: object) -> None:
    """Change one collector's answer of the simulated machine."""
    path = host.sysroot / "ask" / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def test_three_of_thirty_two(fleet: SshFleet) -> None:
    """A kernel, a missing Python and a host that is down are reported once each; the other 29 pass."""
    change_answer(fleet.hosts[6], "host", kernel="4.19.90")
    fleet.hosts[18].write_tool("python3", "#!/bin/sh\necho python3: error while loading libz >&2\nexit 127\n")
    fleet.hosts[29].stop_sshd()
    try:
        done = fleet.run_envcheck("doctor", "--hosts", ALL, "--json", timeout_s=300)
    finally:
        (fleet.hosts[18].bin / "python3").unlink()
        simulate_host(fleet.hosts[6], MACHINE)
        restart_sshd(fleet, fleet.hosts[29], "")
    said = json.loads(done.stdout)
    answered = [name for name, one in said["hosts"].items() if one["answered"]]
    reach = {name: f["seen"] for name, one in said["hosts"].items() for f in one["findings"]
             if f["name"] == "fleet.reach" and f["status"] != "OK"}  # fmt: skip
    odd = {v["subject"]: [(one["value"], one["hosts"]) for one in v["values"]] for v in said["outliers"]}

    assert done.returncode == 1
    assert sorted(reach) == ["node19", "node30"]
    assert "exit code 127" in reach["node19"]
    assert "ssh port refuses connections" in reach["node30"]
    assert list(odd) == ["kernel"]
    assert odd["kernel"][1] == ("4.19.90", "node07")
    assert len(answered) == 30
    assert {one["verdict"] for name, one in said["hosts"].items() if name in answered} == {"OK"}


def test_full_disks(fleet: SshFleet) -> None:
    """A host without space for a single file responds like any other."""
    steps = [FULL_TMP.format(kept=fleet.folder), "dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || true"]
    steps += [FULL.format(place=place) for place in (fleet.hosts[0].home, "/var/tmp", "/dev/shm")]
    steps += [READ_ONLY.format(place=Path("~root").expanduser()), "cd /tmp"]  # working directory of commands over ssh
    restart_sshd(fleet, fleet.hosts[0], "; ".join(steps))
    try:
        said = json.loads(fleet.run_envcheck("doctor", "--hosts", "node[01-02]", "--json").stdout)["hosts"]
    finally:
        restart_sshd(fleet, fleet.hosts[0], "")

    assert [said[name]["answered"] for name in ("node01", "node02")] == [True, True]

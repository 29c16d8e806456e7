"""plan --hosts: the job's cards over many hosts; the host with the fewest and fullest cards decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.host_names import fold_hosts
from launch.catalogue import devices
from launch.planner import host_spread
from launch.planner.card_memory import CardMemory
from launch.planner.resolve import PlannedMachine
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, simulate_host

pytestmark = pytest.mark.real

MACHINE = "atlas-800t-a2"
JOB = ("--model", "21b", "--method", "lora", "--device", "npu")


def make_machine(*used_gib: float, vendor: str = "npu") -> PlannedMachine:
    """Return a host with this many cards of 64 GiB, of which this much is used."""
    each = tuple(CardMemory(n, n, 64.0, used) for n, used in enumerate(used_gib))
    kind = replace(devices.find_default_device("npu"), vendor=vendor, name="910B3")
    return PlannedMachine(kind, len(each), 64.0, max(used_gib), each=each)


def test_the_one_with_fewest_and_the_fullest_decide() -> None:
    """Each host provides as many cards as the smallest has, its emptiest; the least free memory decides."""
    found = host_spread.combine_hosts(
        {"a": make_machine(3, 3, 3), "b": make_machine(3, 40, 9), "c": make_machine(3, 3), "d": "no card"}
    )

    assert (found.machine.cards, found.machine.device.cards_per_node) == (6, 2)
    assert (found.tightest, found.machine.used_gib) == ("b", 9)
    assert list(host_spread.format_host_lines(found, fold_hosts)) == [
        "  hosts     3 x 64 GiB 910B3 on a,b",
        "            2 x 64 GiB 910B3 on c; only 2 per host are used",
        "  fullest   b: 55.0 of 64.0 GiB free per card, 6.0 GiB less than on the host with the most free memory",
        "  excluded  d: no card",
    ]


def test_hosts_that_are_no_fleet() -> None:
    """Mixed vendors are refused; hosts without cards are an error without traceback."""
    with pytest.raises(UsageError, match=r"npu \(a\), nvidia \(b\)"):
        host_spread.combine_hosts({"a": make_machine(3), "b": make_machine(3, vendor="nvidia")})
    with pytest.raises(UndeterminedError, match="ssh port refuses connections"):
        host_spread.combine_hosts({"a": "ssh port refuses connections"})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    with fleet_parts.start_fleet(tmp_path_factory.mktemp("fleet"), 3, MACHINE) as made:
        yield made


def test_the_plan_of_real_hosts(fleet: SshFleet) -> None:
    """Cards are counted over ssh; a host that lost one is reported, and so is one that does not respond."""
    simulate_host(fleet.hosts[1], MACHINE, "card-lost=3")
    whole = fleet.run_envcheck("plan", *JOB, "--hosts", "node[01-03]")
    fleet.hosts[2].stop_sshd()
    part = fleet.run_envcheck("plan", *JOB, "--hosts", "node[01-03]", "--json")
    said = json.loads(part.stdout)

    assert whole.returncode == 0, whole.stderr
    assert "21 x 64 GiB ascend-910b3" in whole.stdout
    assert "8 x 64 GiB ascend-910b3 on node[01,03]" in whole.stdout
    assert "7 x 64 GiB ascend-910b3 on node02; only 7 per host are used" in whole.stdout
    assert part.returncode == 3, part.stderr
    assert said["layout"]["cards"] == 14
    assert said["excluded_hosts"] == {"node03": "ssh port refuses connections"}
    assert {name: one["cards"] for name, one in said["hosts"].items()} == {"node01": 8, "node02": 7}


def test_what_the_hosts_tell_is_not_described(fleet: SshFleet) -> None:
    """--cards conflicts with --hosts."""
    done = fleet.run_envcheck("plan", *JOB, "--hosts", "node01", "--cards", "8")

    assert done.returncode == 2
    assert "--cards cannot be combined with --hosts" in done.stderr

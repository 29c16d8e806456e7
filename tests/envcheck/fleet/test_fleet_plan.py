"""plan --hosts: the job's cards over many hosts, the host with fewest and fullest cards deciding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from envcheck.core.errors import UntoldError, UsageError
from envcheck.core.host_names import fold_hosts
from launch.catalogue import devices
from launch.planner import spread
from launch.planner.card_memory import CardMemory
from launch.planner.resolve import Machine
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet, simulate

pytestmark = pytest.mark.real

MACHINE = "atlas-800t-a2"
JOB = ("--model", "21b", "--method", "lora", "--device", "npu")


def machine(*used_gib: float, vendor: str = "npu") -> Machine:
    """A host with as many cards of 64 GiB, on which so much is in use."""
    each = tuple(CardMemory(n, n, 64.0, used) for n, used in enumerate(used_gib))
    kind = replace(devices.of_vendor("npu"), vendor=vendor, name="910B3")
    return Machine(kind, len(each), 64.0, max(used_gib), each=each)


def test_the_one_with_fewest_and_the_fullest_decide() -> None:
    """Each host gives as many cards as the one with fewest has, its emptiest; the least room of those decides."""
    found = spread.spread({"a": machine(3, 3, 3), "b": machine(3, 40, 9), "c": machine(3, 3), "d": "no card"})

    assert (found.machine.cards, found.machine.device.cards_per_node) == (6, 2)
    assert (found.tightest, found.machine.used_gib) == ("b", 9)
    assert list(spread.lines(found, fold_hosts)) == [
        "  hosts     3 x 64 GiB 910B3 on a,b",
        "            2 x 64 GiB 910B3 on c, unlike the others: 2 of each host are counted",
        "  tightest  b: 55.0 of 64.0 GiB free on a card, 6.0 GiB less than on the emptiest host",
        "  left out  d: no card",
    ]


def test_hosts_that_are_no_fleet() -> None:
    """Two vendors are asked apart; hosts without cards are no answer, and no traceback."""
    with pytest.raises(UsageError, match=r"npu \(a\), nvidia \(b\)"):
        spread.spread({"a": machine(3), "b": machine(3, vendor="nvidia")})
    with pytest.raises(UntoldError, match="nobody listens"):
        spread.spread({"a": "nobody listens at its ssh port"})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_parts.fleet(tmp_path_factory.mktemp("fleet"), 3, MACHINE) as made:
        yield made


def test_the_plan_of_real_hosts(fleet: Fleet) -> None:
    """Cards are counted over the hosts by ssh, a host that lost one is named, and so is one that does not answer."""
    simulate(fleet.hosts[1], MACHINE, "card-lost=3")
    whole = fleet.run("plan", *JOB, "--hosts", "node[01-03]")
    fleet.hosts[2].stop()
    part = fleet.run("plan", *JOB, "--hosts", "node[01-03]", "--json")
    said = json.loads(part.stdout)

    assert whole.returncode == 0, whole.stderr
    assert "21 x 64 GiB ascend-910b" in whole.stdout
    assert "8 x 64 GiB ascend-910b on node[01,03]" in whole.stdout
    assert "7 x 64 GiB ascend-910b on node02, unlike the others: 7 of each host are counted" in whole.stdout
    assert part.returncode == 3, part.stderr
    assert said["layout"]["cards"] == 14
    assert said["left_out"] == {"node03": "nobody listens at its ssh port"}
    assert {name: one["cards"] for name, one in said["hosts"].items()} == {"node01": 8, "node02": 7}


def test_what_the_hosts_tell_is_not_described(fleet: Fleet) -> None:
    """--cards beside --hosts would be two answers to one question."""
    done = fleet.run("plan", *JOB, "--hosts", "node01", "--cards", "8")

    assert done.returncode == 2
    assert "--cards cannot be combined with --hosts" in done.stderr

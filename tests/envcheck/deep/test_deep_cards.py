"""Which cards doctor --deep would touch, which pairs stand for the links, and what is published of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Process, Topology
from envcheck.deep import baselines
from envcheck.deep.cards import CAP, Pair, choose, pairs
from envcheck.settings.thresholds import THRESHOLDS
from envcheck.vendors import VENDORS
from launch.catalogue import links
from tests.envcheck.checks.doctor_helpers import MACHINES, simulated

IDLE = tuple(name for name in MACHINES if name != "cpu")


def read(name: str, *wishes: str) -> tuple[Facts, VendorFacts]:
    with simulated(name, wishes) as machine:
        found = facts.gather(machine)
    return found, found.vendors[0]


@pytest.mark.parametrize("name", IDLE)
def test_idle_machines(name: str) -> None:
    """On an idle machine each device is free, and no more than the share of its free memory would be filled."""
    known, v = read(name)
    chosen = choose(known, v)
    share = THRESHOLDS["deep.memory.fill_percent"].value / 100

    assert chosen.obstacle == ""
    assert len(chosen.free) == len(v.devices)
    for card, device in zip(chosen.cards, v.devices, strict=True):
        free = (device.memory_total_mib or 0) - (device.memory_used_mib or 0)
        assert 0 < card.memory_mib <= free * share


def test_a_process() -> None:
    """A card with a process on it is not free, and says whose it is; its neighbours are."""
    known, v = read("h200x8")
    worker = Process(device=3, pid=4242, name="python", memory_mib=70000)
    chosen = choose(known, replace(v, processes=(worker,)))

    assert [card.index for card in chosen.cards if card.users] == [3]
    assert chosen.cards[3].users == ("python (pid 4242, 70000 MiB)",)
    assert len(chosen.free) == 7


def test_a_process_on_one_die() -> None:
    """Where two dies share an NPU, a process on the second leaves the first free."""
    known, v = read("atlas-800t-a3")
    second = next(n for n, device in enumerate(v.devices) if device.chip == 1)
    chosen = choose(known, replace(v, processes=(Process(device=v.devices[second].npu, chip=1, pid=7),)))

    assert [card.index for card in chosen.cards if card.users] == [second]


def test_memory_that_nobody_owns() -> None:
    """A card whose memory is held by somebody whom the tool does not show is in use, too."""
    known, v = read("dev-4090x1", "memory-held")
    chosen = choose(known, replace(v, processes=()))

    assert chosen.free == ()
    assert "does not show holds" in chosen.cards[0].users[0]


@pytest.mark.parametrize(
    ("change", "words"),
    (({"processes": None}, "does not tell which processes"), ({"devices": ()}, "lists no device")),
)
def test_what_cannot_be_told(change: dict[str, object], words: str) -> None:
    """Where the tool is silent on devices or processes no card is touched."""
    known, v = read("h200x8")
    chosen = choose(known, replace(v, **change))  # type: ignore[arg-type]

    assert words in chosen.obstacle
    assert chosen.cards == ()


@pytest.mark.parametrize(
    ("said", "places"), (("3,1", [3, 1]), ("0", [0]), ("GPU-1f2a", None), ("9", None), ("1,1", None))
)
def test_visible(said: str, places: list[int] | None) -> None:
    """The framework's numbers follow the list of visible devices; what is no list of numbers stops the test."""
    known, v = read("h200x8")
    chosen = choose(replace(known, environment={VENDORS["nvidia"].visible_env: said}), v)

    assert [int(card.label) for card in chosen.cards] == (places or [])
    assert bool(chosen.obstacle) == (places is None)


def test_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person may set how much memory is filled at most."""
    monkeypatch.setenv(CAP, "100")
    known, v = read("h200x8")

    assert {card.memory_mib for card in choose(known, v).cards} == {100}


def test_pairs_of_each_kind() -> None:
    """One pair of free cards for each kind of link; of cards that are in use, none."""
    row = {"a": "X", "b": "NV4", "c": "SYS", "d": "SYS"}
    topology = Topology(
        devices=tuple("abcd"),
        matrix={
            "a": row,
            "b": {**row, "a": "NV4", "c": "PIX"},
            "c": {"a": "SYS", "b": "PIX", "d": "NV4"},
            "d": {"c": "NV4", "a": "SYS", "b": "SYS"},
        },
    )

    assert pairs(topology, range(4), range(4)) == (Pair(0, 1, "NV4"), Pair(0, 2, "SYS"), Pair(1, 2, "PIX"))
    assert pairs(topology, range(4), (2, 3)) == (Pair(2, 3, "NV4"),)
    assert pairs(topology, (3, 2), (0, 1)) == (Pair(0, 1, "NV4"),)
    assert pairs(None, range(4), (1, 2, 3)) == (Pair(1, 3),)
    assert pairs(topology, range(4), (2,)) == ()


@pytest.mark.parametrize(
    ("name", "tflops"),
    (
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA H20", 148),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A800-SXM4-80GB", 312),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("910B3", 313),
        ("910B2C", 313),
        ("910B4", None),
        ("Ascend910", 376),
        ("Iluvatar BI-V150", 96),
        ("Tesla T4", None),
        (None, None),
    ),
)
def test_floors(name: str | None, tflops: float | None) -> None:
    """A card has the figure of its own kind, and one of a kind that is not in the table has none."""
    floor = baselines.of_card(name).get("matmul")

    assert (floor.rate if floor else None) == tflops


def test_each_floor_has_a_source() -> None:
    """Each figure of the table says where it comes from, and is less than all of what is published."""
    told = [floor for _, card in baselines.table() for floor in card.values()]

    assert told
    assert all(floor.source and 0 < floor.share < 1 and floor.rate > 0 for floor in told)


@pytest.mark.parametrize(
    ("word", "rate"), (("NV18", 450), ("HCCS", 28), ("SIO", 270), ("PIX", None), ("SYS", None), ("?", None))
)
def test_links(word: str, rate: float | None) -> None:
    """A pair's floor is that of its links; over PCIe there is none, since it depends on the slot."""
    floor = baselines.of_link(word, links.kinds())

    assert (floor.rate if floor else None) == rate

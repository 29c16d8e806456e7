"""doctor --deep: which cards it uses, which pairs it measures per link type, and the published limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Process, Topology
from envcheck.deep import baselines
from envcheck.deep.card_selection import MEMORY_VARIABLE, CardPair, select_cards, select_pairs
from envcheck.settings.thresholds import THRESHOLDS
from envcheck.vendors import VENDORS
from launch.catalogue import links
from tests.envcheck.checks.doctor_helpers import MACHINES, simulate_machine

IDLE = tuple(name for name in MACHINES if name != "cpu")


def read_facts(name: str, *wishes: str) -> tuple[Facts, VendorFacts]:
    with simulate_machine(name, wishes) as machine:
        found = facts.gather_facts(machine)
    return found, found.vendors[0]


@pytest.mark.parametrize("name", IDLE)
def test_idle_machines(name: str) -> None:
    """On an idle machine each device is free, and no more than the share of its free memory would be filled."""
    known, v = read_facts(name)
    chosen = select_cards(known, v)
    share = THRESHOLDS["deep.memory.fill_percent"].value / 100

    assert chosen.obstacle == ""
    assert len(chosen.free_cards) == len(v.devices)
    for card, device in zip(chosen.cards, v.devices, strict=True):
        free = (device.memory_total_mib or 0) - (device.memory_used_mib or 0)
        assert 0 < card.memory_mib <= free * share


def test_a_process() -> None:
    """A card with a running process is in use, and the process is named; the other cards are free."""
    known, v = read_facts("h200x8")
    worker = Process(device=3, pid=4242, name="python", memory_mib=70000)
    chosen = select_cards(known, replace(v, processes=(worker,)))

    assert [card.index for card in chosen.cards if card.users] == [3]
    assert chosen.cards[3].users == ("python (pid 4242, 70000 MiB)",)
    assert len(chosen.free_cards) == 7


def test_a_process_on_one_die() -> None:
    """Where two dies share an NPU, a process on the second leaves the first free."""
    known, v = read_facts("atlas-800t-a3")
    second = next(n for n, device in enumerate(v.devices) if device.chip == 1)
    chosen = select_cards(known, replace(v, processes=(Process(device=v.devices[second].npu, chip=1, pid=7),)))

    assert [card.index for card in chosen.cards if card.users] == [second]


def test_memory_that_nobody_owns() -> None:
    """A card with used memory but no visible process is also in use."""
    known, v = read_facts("dev-4090x1", "memory-held")
    chosen = select_cards(known, replace(v, processes=()))

    assert chosen.free_cards == ()
    assert "that nvidia-smi does not list" in chosen.cards[0].users[0]


@pytest.mark.parametrize(
    ("change", "words"),
    (({"processes": None}, "does not report the processes"), ({"devices": ()}, "lists no device")),
)
def test_what_cannot_be_told(change: dict[str, object], words: str) -> None:
    """Where the tool is silent on devices or processes no card is touched."""
    known, v = read_facts("h200x8")
    chosen = select_cards(known, replace(v, **change))  # type: ignore[arg-type]

    assert words in chosen.obstacle
    assert chosen.cards == ()


@pytest.mark.parametrize(
    ("said", "places"), (("3,1", [3, 1]), ("0", [0]), ("GPU-1f2a", None), ("9", None), ("1,1", None))
)
def test_visible(said: str, places: list[int] | None) -> None:
    """Framework device numbers follow the visible-devices variable; a value that is not a list of numbers stops the
    test."""
    known, v = read_facts("h200x8")
    chosen = select_cards(replace(known, environment={VENDORS["nvidia"].visible_env: said}), v)

    assert [int(card.label) for card in chosen.cards] == (places or [])
    assert bool(chosen.obstacle) == (places is None)


def test_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person may set how much memory is filled at most."""
    monkeypatch.setenv(MEMORY_VARIABLE, "100")
    known, v = read_facts("h200x8")

    assert {card.memory_mib for card in select_cards(known, v).cards} == {100}


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

    assert select_pairs(topology, range(4), range(4)) == (
        CardPair(0, 1, "NV4"),
        CardPair(0, 2, "SYS"),
        CardPair(1, 2, "PIX"),
    )
    assert select_pairs(topology, range(4), (2, 3)) == (CardPair(2, 3, "NV4"),)
    assert select_pairs(topology, (3, 2), (0, 1)) == (CardPair(0, 1, "NV4"),)
    assert select_pairs(None, range(4), (1, 2, 3)) == (CardPair(1, 3),)
    assert select_pairs(topology, range(4), (2,)) == ()


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
    """A card gets the limit of its own model; a model missing from the table has none."""
    floor = baselines.find_card_baselines(name).get("matmul")

    assert (floor.rate if floor else None) == tflops


def test_each_floor_has_a_source() -> None:
    """Each limit in floors.toml has a source and is below every published measurement."""
    told = [floor for _, card in baselines.load_table() for floor in card.values()]

    assert told
    assert all(floor.source and 0 < floor.share < 1 and floor.rate > 0 for floor in told)


@pytest.mark.parametrize(
    ("word", "rate"), (("NV18", 450), ("HCCS", 28), ("SIO", 270), ("PIX", None), ("SYS", None), ("?", None))
)
def test_links(word: str, rate: float | None) -> None:
    """The limit of a pair depends on its links; PCIe has none, since the rate depends on the slot."""
    floor = baselines.find_link_baseline(word, links.load_link_kinds())

    assert (floor.rate if floor else None) == rate

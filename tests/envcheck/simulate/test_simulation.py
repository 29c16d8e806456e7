"""Simulated machines: their tools are read by our own parsers to exactly what the description says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.collect.fact_reader import find_follow_ups
from envcheck.collect.host.collectors import COLLECTORS
from envcheck.collect.machine import Machine as Door
from envcheck.collect.machine import ask_all, run_program
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.model import Outcome, Question
from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.topology import relation
from envcheck.simulate.machine_file import load, names
from envcheck.vendors import VENDORS
from envcheck.vendors.nvidia import simulate_fabric_manager
from tests.envcheck.simulate.simulation_parts import document, listing, opened, say, told_by

MACHINES = sorted(names())
WITH_CARDS = [name for name in MACHINES if load(name).devices]
NPUS = [name for name in MACHINES if load(name).vendor == "npu"]


@pytest.fixture
def door(tmp_path: Path) -> Callable[..., tuple[Machine, Door]]:
    return opened(tmp_path)


@pytest.mark.parametrize("name", WITH_CARDS)
def test_devices_are_the_described_ones(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """Every way of listing devices that a machine answers parses to exactly those described."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    documents = [document(at, *q.what) for q in VENDORS[machine.vendor].devices if at(q).ok]
    expected = [(c.bus_id, make.name, c.temperature_c, c.memory_used_mib, make.memory_mib) for c in machine.chips]

    assert documents
    for told in documents:
        seen = [(d.bus_id, d.name, d.temperature_c, d.memory_used_mib, d.memory_total_mib) for d in told.devices]
        power = [None if d.power_w is None else round(d.power_w) for d in told.devices]

        assert expected == seen
        assert [None if c.power_w is None else round(c.power_w) for c in machine.chips] == power
        assert not told.truncated
        assert told.error is None
        assert machine.driver is not None
        assert machine.driver.version == told.driver_version


@pytest.mark.parametrize("name", NPUS)
def test_ascend_numbers(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """NPU, chip, health and, where the layout has it, Phy-ID are those described."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    seen = [(d.npu, d.chip, d.phy_id, d.health) for d in listing(machine, at).devices]

    assert [(c.card, c.die, c.index if make.phy_ids else None, "OK") for c in machine.chips] == seen


@pytest.mark.parametrize("name", WITH_CARDS)
def test_topology_is_the_described_one(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """The matrix that the parser reads holds the relation of every pair."""
    machine, at = door(name)
    question = next(q for q in VENDORS[machine.vendor].details if "topo" in q.what)
    read = document(at, *question.what).topology
    assert read is not None
    cells = [[read.matrix[row][column] for column in read.names] for row in read.names]

    assert [[relation(machine, a, b) for b in machine.chips] for a in machine.chips] == cells
    assert machine.links is not None
    assert list(machine.links.cpu_affinity) == [a for a in read.cpu_affinity.values() if a]


@pytest.mark.parametrize("name", MACHINES)
def test_every_question_has_an_answer(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """No question of envcheck's own fails on a machine without fault, except the other generation's spelling."""
    machine, at = door(name)
    vendor = VENDORS[machine.vendor]
    presence = vendor.presence if vendor.pci_vendor else ()
    first = ask_all(at, (*vendor.devices, *vendor.beside, *presence, *HOST_QUESTIONS))
    answers = first | ask_all(at, find_follow_ups(replace(vendor, only_if={}), first))
    wrong = {key: a.outcome for key, a in answers.items() if a.outcome in (Outcome.FAILED, Outcome.HUNG)}
    missing = [key for key, a in answers.items() if a.outcome is Outcome.ABSENT and key.startswith(("run", "ask"))]
    missing = [key for key in missing if "nv-fabricmanager" not in key or simulate_fabric_manager.has_switches(machine)]

    assert [key for key in wrong if ",power.draw," not in key] == []
    assert missing == []


@pytest.mark.parametrize("name", WITH_CARDS)
def test_lspci_and_nodes_agree(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """lspci shows each device at its place and /dev has a node for each; others of that vendor are no accelerators."""
    machine, at = door(name)
    lspci, nodes = (at(question).out.splitlines() for question in VENDORS[machine.vendor].presence)
    make = machine.devices
    assert make is not None
    own = [line for line in lspci if f":{make.pci_id}]" in line]

    assert {c.bus_id.partition(":")[2].lower() for c in machine.chips} == {line.split()[0] for line in own}
    assert len(machine.chips) == len(nodes)


def test_collectors_have_the_real_ones_shape(door: Callable[..., tuple[Machine, Door]]) -> None:
    """What the host tells has the keys that the real collectors have on this machine."""
    _, at = door("cpu")
    for name, collect in COLLECTORS.items():
        told, real = json.loads(at(Question("ask", (name,))).out), collect(tuple(VENDORS.values()), run_program)

        assert name == "environment" or set(told) <= set(real)
        assert name in ("environment", "disks") or set(told) == set(real)
    assert {"/", ".", "home", "/dev/shm"} <= set(json.loads(told_by(*door("cpu"), "disks")))


def test_power_of_one_chip_a_card(door: Callable[..., tuple[Machine, Door]]) -> None:
    """On a BI-V150 only the second chip of each card shows its power."""
    told = listing(*door("bi-v150x8"))

    assert [n % 2 == 1 for n in range(16)] == [d.power_w is not None for d in told.devices]


@pytest.mark.parametrize("name", WITH_CARDS)
def test_tables_are_straight(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """All framed lines of a tool's table are of one width, processes and all."""
    machine, at = door(name, "memory-held", "driver-old=21.12.345.rc1.b0300")
    lines = say(at, *VENDORS[machine.vendor].devices[-1].what).splitlines()

    assert len({len(line) for line in lines if line.startswith(("|", "+"))}) == 1


def test_mig_is_shown_everywhere(door: Callable[..., tuple[Machine, Door]]) -> None:
    """MIG shows in the XML, the table and the list, and a device's memory stays its own."""
    _, at = door("a100x8-mig")

    assert {d.mig_mode for d in document(at, "nvidia-smi", "-q", "-x").devices} == {"Enabled"}
    assert {d.mig_mode for d in document(at, "nvidia-smi").devices} == {"Enabled"}
    assert say(at, "nvidia-smi", "-L").count("MIG 3g.40gb") == 16


def test_unknown_queries(door: Callable[..., tuple[Machine, Door]]) -> None:
    """What a tool does not know it answers as the vendor's does: with an error, and not with an empty success."""
    npu, nvidia, corex = door("atlas-800t-a2")[1], door("h200x8")[1], door("bi-v150x8")[1]

    assert document(npu, "npu-smi", "info", "-t", "product", "-i", "0").kind == "error"
    assert "Error parameter of -i" in say(npu, "npu-smi", "info", "-t", "board", "-i", "8")
    assert "Error parameter of -t" in say(npu, "npu-smi", "info", "-t", "weather", "-i", "0")
    for at, tool in ((nvidia, "nvidia-smi"), (corex, "ixsmi")):
        answer = at(Question("run", (tool, "--query-gpu=index,../../../etc/passwd", "--format=csv")))
        assert (answer.status, answer.out.startswith("Field")) == (2, True)
        assert at(Question("run", (tool, "--dance"))).outcome is Outcome.FAILED


def test_query_formats(door: Callable[..., tuple[Machine, Door]]) -> None:
    """--query-gpu honours the fields asked for, their order, noheader and nounits."""
    _, at = door("dev-4090x1")
    asked = "--query-gpu=memory.total,index,gpu_name"

    assert (
        say(at, "nvidia-smi", asked, "--format=csv")
        == "memory.total [MiB], index, name\n24564 MiB, 0, NVIDIA GeForce RTX 4090\n"
    )
    assert say(at, "nvidia-smi", asked, "--format=csv,noheader,nounits") == "24564, 0, NVIDIA GeForce RTX 4090\n"

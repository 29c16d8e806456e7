"""Simulated machines: envcheck's parsers read from their tools exactly what the description says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.collect.answer_sources import AnswerSource as Door
from envcheck.collect.answer_sources import ask_all, run_program
from envcheck.collect.fact_reader import find_follow_ups
from envcheck.collect.host.collectors import COLLECTORS
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.model import Outcome, Question
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.topology import find_relation
from envcheck.simulate.machine_file import list_machines, load_machine
from envcheck.vendors import VENDORS
from envcheck.vendors.nvidia import simulate_fabric_manager
from tests.envcheck.simulate.simulation_parts import (
    make_machine_opener,
    parse_listing,
    parse_tool,
    read_collector,
    run_tool,
)

MACHINES = sorted(list_machines())
WITH_CARDS = [name for name in MACHINES if load_machine(name).devices]
NPUS = [name for name in MACHINES if load_machine(name).vendor == "npu"]


@pytest.fixture
def door(tmp_path: Path) -> Callable[..., tuple[SimulatedSystem, Door]]:
    return make_machine_opener(tmp_path)


@pytest.mark.parametrize("name", WITH_CARDS)
def test_devices_are_the_described_ones(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Every listing that a machine answers parses to exactly the described devices."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    documents = [parse_tool(at, *q.what) for q in VENDORS[machine.vendor].devices if at(q).ok]
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


@pytest.mark.parametrize("name", WITH_CARDS)
def test_commands_of_findings_are_answered(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """The vendor's tool answers each command that findings show, and -h where its own message names it."""
    machine, at = door(name)
    vendor = VENDORS[machine.vendor]
    shown = [one.replace("{id}", "0") for commands in vendor.commands.values() for one in commands]
    own = [one.split() for one in shown if one.split()[0] == vendor.tool]
    refusal = run_tool(at, vendor.tool, "--no-such-option")
    asked = [*own, *([[vendor.tool, "-h"]] if f"{vendor.tool} -h" in refusal else [])]

    assert len(own) > 3
    assert [argv for argv in asked if not at(Question("run", tuple(argv))).ok] == []


@pytest.mark.parametrize("name", ["p800x8", "h200x8", "bi-v150x8"])
def test_queries_of_one_device(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """-q -i shows the device with that number only, as the list does."""
    machine, at = door(name)
    (told,) = parse_tool(at, VENDORS[machine.vendor].tool, "-q", "-i", "3").devices
    listed = parse_listing(machine, at).devices[3]

    assert (told.bus_id, told.uuid, told.memory_total_mib) == (listed.bus_id, listed.uuid, listed.memory_total_mib)


def test_links_of_a_degraded_card(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """xpulink -s shows the links of a lost card as inactive, and those of the other group as active."""
    _, at = door("p800x8", "topology-degraded")
    told = {
        d["index"]: [link["active"] for link in d["links"]]
        for d in parse_tool(at, "xpu-smi", "xpulink", "-s").detail["devices"]
    }

    assert (told[0], told[4], told[7]) == ([True] * 3, [True, True, False], [False] * 3)


@pytest.mark.parametrize("name", NPUS)
def test_ascend_numbers(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """NPU, chip, health and, if the layout has it, Phy-ID are as described."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    seen = [(d.npu, d.chip, d.phy_id, d.health) for d in parse_listing(machine, at).devices]

    assert [(c.card, c.die, c.index if make.phy_ids else None, "OK") for c in machine.chips] == seen


@pytest.mark.parametrize("name", WITH_CARDS)
def test_topology_is_the_described_one(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """The parsed matrix has the relation of every pair."""
    machine, at = door(name)
    question = next(q for q in VENDORS[machine.vendor].details if "topo" in q.what)
    read = parse_tool(at, *question.what).topology
    assert read is not None
    cells = [[read.matrix[row][column] for column in read.names] for row in read.names]

    assert [[find_relation(machine, a, b) for b in machine.chips] for a in machine.chips] == cells
    assert machine.links is not None
    assert list(machine.links.cpu_affinity) == [a for a in read.cpu_affinity.values() if a]


@pytest.mark.parametrize("name", MACHINES)
def test_every_question_has_an_answer(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Every question of envcheck succeeds on a machine without faults, except the other generation's spelling."""
    machine, at = door(name)
    vendor = VENDORS[machine.vendor]
    presence = vendor.presence_questions if vendor.pci_vendor else ()
    first = ask_all(at, (*vendor.devices, *vendor.detail_questions, *presence, *HOST_QUESTIONS))
    answers = first | ask_all(at, find_follow_ups(replace(vendor, only_if={}), first))
    wrong = {key: a.outcome for key, a in answers.items() if a.outcome in (Outcome.FAILED, Outcome.HUNG)}
    missing = [key for key, a in answers.items() if a.outcome is Outcome.ABSENT and key.startswith(("run", "ask"))]
    missing = [key for key in missing if "nv-fabricmanager" not in key or simulate_fabric_manager.has_switches(machine)]

    assert [key for key in wrong if ",power.draw," not in key] == []
    assert missing == []


@pytest.mark.parametrize("name", WITH_CARDS)
def test_lspci_and_nodes_agree(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """lspci lists each device and /dev has a node for each; other devices of the vendor are not accelerators."""
    machine, at = door(name)
    vendor = VENDORS[machine.vendor]
    lspci = [line for question in vendor.pci_questions for line in at(question).out.splitlines()]
    nodes = at(vendor.node_question).out.splitlines()
    make = machine.devices
    assert make is not None
    own = [line for line in lspci if f":{make.pci_id}]" in line]

    assert {c.bus_id.partition(":")[2].lower() for c in machine.chips} == {line.split()[0] for line in own}
    assert len(machine.chips) == len(nodes)


def test_collectors_have_the_real_ones_shape(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Simulated collectors return the same keys as the real ones on this machine."""
    _, at = door("cpu")
    for name, collect in COLLECTORS.items():
        told, real = json.loads(at(Question("ask", (name,))).out), collect(tuple(VENDORS.values()), run_program)

        assert name == "environment" or set(told) <= set(real)
        assert name in ("environment", "disks") or set(told) == set(real)
    assert {"/", ".", "home", "/dev/shm"} <= set(json.loads(read_collector(*door("cpu"), "disks")))


def test_power_of_one_chip_a_card(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """On a BI-V150 only the second chip of each card shows its power."""
    told = parse_listing(*door("bi-v150x8"))

    assert [n % 2 == 1 for n in range(16)] == [d.power_w is not None for d in told.devices]


@pytest.mark.parametrize("name", WITH_CARDS)
def test_tables_are_straight(name: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """All framed lines of a tool's table have one width, including processes."""
    machine, at = door(name, "memory-held", "driver-old=21.12.345.rc1.b0300")
    lines = run_tool(at, *VENDORS[machine.vendor].devices[-1].what).splitlines()

    assert len({len(line) for line in lines if line.startswith(("|", "+"))}) == 1


def test_mig_is_shown_everywhere(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """MIG instances are in the XML, the table and the list, and the device's memory is unchanged."""
    _, at = door("a100x8-mig")

    assert {d.mig_mode for d in parse_tool(at, "nvidia-smi", "-q", "-x").devices} == {"Enabled"}
    assert {d.mig_mode for d in parse_tool(at, "nvidia-smi").devices} == {"Enabled"}
    assert run_tool(at, "nvidia-smi", "-L").count("MIG 3g.40gb") == 16


def test_unknown_queries(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Unknown queries fail as with the vendor's tool, instead of succeeding with no output."""
    npu, nvidia, corex = door("atlas-800t-a2")[1], door("h200x8")[1], door("bi-v150x8")[1]

    assert parse_tool(npu, "npu-smi", "info", "-t", "product", "-i", "0").kind == "error"
    assert "Error parameter of -i" in run_tool(npu, "npu-smi", "info", "-t", "board", "-i", "8")
    assert "Error parameter of -t" in run_tool(npu, "npu-smi", "info", "-t", "weather", "-i", "0")
    for at, tool in ((nvidia, "nvidia-smi"), (corex, "ixsmi")):
        answer = at(Question("run", (tool, "--query-gpu=index,../../../etc/passwd", "--format=csv")))
        assert (answer.status, answer.out.startswith("Field")) == (2, True)
        assert at(Question("run", (tool, "--dance"))).outcome is Outcome.FAILED


def test_query_formats(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """--query-gpu honours the requested fields, their order, noheader and nounits."""
    _, at = door("dev-4090x1")
    asked = "--query-gpu=memory.total,index,gpu_name"

    assert (
        run_tool(at, "nvidia-smi", asked, "--format=csv")
        == "memory.total [MiB], index, name\n24564 MiB, 0, NVIDIA GeForce RTX 4090\n"
    )
    assert run_tool(at, "nvidia-smi", asked, "--format=csv,noheader,nounits") == "24564, 0, NVIDIA GeForce RTX 4090\n"

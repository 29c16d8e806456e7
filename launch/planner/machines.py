"""Describe a machine for the planner: free memory and links of its cards, from the facts that doctor collects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.derived.device_count import count_devices
from envcheck.core.derived.device_details import is_partitioned
from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.messages import NOTHING, Message, _
from envcheck.vendors import VENDORS
from envcheck.vendors.names import accelerator_choice
from launch.catalogue import devices, links
from launch.memory import GIB
from launch.memory.planned_job import PlannedJob, is_assumption_about
from launch.planner import verdict
from launch.planner.card_memory import CardMemory
from launch.planner.resolve import PlannedMachine
from launch.planner.verdict import LaunchPlan

if TYPE_CHECKING:
    from envcheck.core import model
    from envcheck.core.facts import Facts, VendorFacts

MIB_IN_GIB = 1024.0


def plan(facts: Facts | None, job: PlannedJob) -> LaunchPlan:
    """Return the plan of a job on this machine's cards with their current free memory.

    `facts` None: on cards as the job describes them.  The job's number of cards is kept: the emptiest cards of the
    machine are used; if they do not suffice, more machines like this one are assumed.
    """
    if facts is None:
        return verdict.evaluate_job(job)
    vendor = job.device.vendor
    machine = find_local_machine(facts, vendor if vendor in VENDORS else "auto", job.layout.cards)
    if machine is None:
        raise UndeterminedError(
            _("no {vendor} card of this machine reports its memory size", vendor=vendor),
            _("call plan() with facts=None to plan for a described machine"),
        )
    return answer_for_machine(machine, place_on_machine(machine, job))


def answer_for_machine(machine: PlannedMachine, job: PlannedJob, hint: Message = NOTHING) -> LaunchPlan:
    """Return the plan of a job laid out for this machine, with its cards.

    If MIG is enabled, the verdict is unknown unless the job does not even fit on a whole card; `hint` is appended to
    the reason and tells the user how to set the instance size.
    """
    plan = replace(verdict.evaluate_job(job), cards=machine.each)
    if not machine.parted or plan.verdict == verdict.NOT:
        return plan
    why = _("the card has {memory_gib:.0f} GiB in total, but MIG is enabled", memory_gib=machine.memory_gib)
    reason = _("{why}. {hint}", why=why, hint=hint) if hint else why
    return replace(plan, verdict=verdict.UNTOLD, parted=True, reason=reason, limit=None)


def place_on_machine(machine: PlannedMachine, job: PlannedJob) -> PlannedJob:
    """Return the job on this machine's cards, with their used memory and links."""
    used = machine.device.idle_gib if machine.used_gib is None else machine.used_gib
    assumed = [text for text in job.assumed if not is_assumption_about(text, "links")]
    return replace(
        job,
        device=replace(machine.device, idle_gib=used),
        memory_gib=machine.memory_gib,
        assumed=(*assumed, *devices.assumed_links(machine.device, job.layout.cards)),
    )


def find_machine(
    facts: Facts, device: str = "auto", cards: int | None = None, given: Mapping[str, float] | None = None
) -> PlannedMachine:
    """Return this machine's cards; for a named vendor that is not here, a typical node of it.

    `given` are other options that describe the cards (option name → value); they need a vendor.  Raises UsageError if
    the vendor is missing, UndeterminedError without usable cards.
    """
    if found := find_local_machine(facts, device, cards):
        return found
    if device in VENDORS:
        return build_described_machine(device, cards, None)
    if given:
        options = " ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in given.items())
        raise UsageError(
            _("{options} needs --device: envcheck found no known accelerator on this machine", options=options),
            _("add --device {choices}", choices=accelerator_choice())
            if "memory_gib" in given
            else _("add --device {choices}, and --memory-gib", choices=accelerator_choice()),
        )
    raise UndeterminedError(
        _("no accelerator reports its memory size")
        if any(v.devices for v in facts.vendors)
        else _("no accelerator found on this machine"),
        _("describe the hardware, for example --device npu --cards 8 --memory-gib 64"),
    )


def find_local_machine(facts: Facts, device: str, cards: int | None) -> PlannedMachine | None:
    """Return the cards of the named (or first) vendor; for "cpu" the host memory as one card.  None without sizes."""
    if device == "cpu":
        return build_cpu_machine(facts)
    some = (v for v in facts.vendors if device in ("auto", v.name))
    found = next(((v, machine) for v in some if (machine := build_vendor_machine(v, cards))), None)
    return replace(found[1], note="" if cards else describe_missing_cards(facts, found[0])) if found else None


def describe_missing_cards(facts: Facts, v: VendorFacts) -> Message:
    """Return a note if the machine has more cards than its tool lists, else ""."""
    if v.document and v.document.truncated:
        return _(
            "machine: at least {count} cards; the tool's output was truncated",
            count=len(v.devices),
        )
    number = count_devices(facts, v)
    return (
        _(
            "machine: {listed} cards listed, but more are installed: {number}",
            listed=number.listed,
            number=number.message,
        )
        if number.is_some_missing
        else NOTHING
    )


def build_cpu_machine(facts: Facts) -> PlannedMachine:
    """Return the host memory as one card, with the part in use."""
    host = facts.host
    if not (host and host.memory_total_bytes):
        raise UndeterminedError(
            _("cannot determine the memory size of the host"), _("describe the host: --device cpu --memory-gib 64")
        )
    total, free = host.memory_total_bytes, host.memory_available_bytes
    used = (total - free) / GIB if free is not None else None
    return PlannedMachine(devices.find_default_device("cpu"), 1, total / GIB, used)


def build_vendor_machine(
    vendor: VendorFacts, cards: int | None = None, selected: tuple[int, ...] | None = None
) -> PlannedMachine | None:
    """Return a machine with the `cards` emptiest cards of the vendor (all by default); None if no size is known.

    Memory and use are those of the fullest of them.  `selected`: consider only these positions in the tool's list.
    """
    name = next((d.name for d in vendor.devices if d.name), None)
    kind = devices.find_device(f"{vendor.name} {name or ''}", vendor.name)
    known = [
        build_card_memory(place, d, kind.idle_gib)
        for place, d in enumerate(vendor.devices)
        if d.memory_total_mib and (selected is None or place in selected)
    ]
    if not known:
        return None
    taken = sorted(known, key=lambda card: -card.free_gib)[:cards]
    places = sorted(card.place for card in taken)
    whole = vendor.topology and len(vendor.topology.names) == len(vendor.devices)
    return PlannedMachine(
        device=replace(
            kind,
            vendor=vendor.name,
            cards_per_node=max(kind.cards_per_node, len(vendor.devices)),
            links=links.measure_links(vendor.topology if whole else None, places, kind.pcie_gbs),
        ),
        cards=cards or len(known),
        memory_gib=taken[-1].memory_gib,
        used_gib=taken[-1].used_gib,
        each=tuple(replace(card, taken=card.place in places) for card in known),
        parted=any(is_partitioned(vendor.devices[place]) for place in places),
    )


def build_card_memory(place: int, device: model.Device, idle_gib: float) -> CardMemory:
    """Return a card with its number in the tool; unknown use counts as that of an idle card."""
    number = next((n for n in (device.index, device.phy_id, device.npu) if n is not None), place)
    used = device.memory_used_mib / MIB_IN_GIB if device.memory_used_mib is not None else idle_gib
    return CardMemory(place, number, (device.memory_total_mib or 0) / MIB_IN_GIB, used)


def build_described_machine(
    device: str,
    cards: int | None,
    memory_gib: float | None,
    used_gib: float | None = None,
    cards_per_node: int | None = None,
) -> PlannedMachine:
    """Return a machine as described by options; missing values are those of a typical node of the vendor."""
    kind = devices.find_default_device(device) if device in VENDORS else devices.find_named_device(device)
    count, size = cards_per_node or kind.cards_per_node, kind.memory_gib
    described = cards or cards_per_node
    known = kind.correct_memory(memory_gib or size)
    if memory_gib and known != memory_gib:
        note = _(
            "machine: {name} cards sold with {sold:g} GB have {memory_gib:g} GiB",
            name=kind.name,
            sold=memory_gib,
            memory_gib=known,
        )
    elif described and memory_gib:
        note = NOTHING
    elif described:
        note = _("machine: {name} cards with {memory_gib:g} GiB each (typical)", name=kind.name, memory_gib=size)
    elif memory_gib:
        note = _("machine: {count} {name} cards (typical)", count=count, name=kind.name)
    else:
        note = _(
            "machine: {count} {name} cards with {memory_gib:g} GiB each (typical)",
            count=count,
            name=kind.name,
            memory_gib=size,
        )
    return set_cards_per_node(
        PlannedMachine(kind, cards or count, known, used_gib, note),
        cards,
        cards_per_node,
    )


def set_cards_per_node(machine: PlannedMachine, cards: int | None, cards_per_node: int | None) -> PlannedMachine:
    """Return the machine with this number of cards in a node; with all of them unless `cards` is given."""
    if cards_per_node is None:
        return machine
    return replace(
        machine, cards=cards or cards_per_node, device=replace(machine.device, cards_per_node=cards_per_node)
    )

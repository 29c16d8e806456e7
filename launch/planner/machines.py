"""The cards of a machine as it is now: free memory, not total, and their links, from the facts that doctor gathers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.derived.device_count import count_devices
from envcheck.core.derived.per_device import is_cut
from envcheck.core.errors import UntoldError, UsageError
from envcheck.vendors import VENDORS
from envcheck.vendors.names import accelerator_choice
from launch.catalogue import devices, links
from launch.memory import GIB
from launch.memory.job import PlannedJob
from launch.planner import verdict
from launch.planner.card_memory import CardMemory
from launch.planner.resolve import Machine
from launch.planner.verdict import LaunchPlan

if TYPE_CHECKING:
    from envcheck.core import model
    from envcheck.core.facts import Facts, VendorFacts

MIB_IN_GIB = 1024.0


def plan(facts: Facts | None, job: PlannedJob) -> LaunchPlan:
    """Whether the job fits, and why: on this machine's cards as they are now, or with None as the job describes them.

    The job's own card count is kept: the emptiest of the machine's cards are taken, and where they do not suffice
    further machines like this one.
    """
    if facts is None:
        return verdict.answer(job)
    vendor = job.device.vendor
    machine = here(facts, vendor if vendor in VENDORS else "auto", job.layout.cards)
    if machine is None:
        raise UntoldError(
            f"no {vendor} card of this machine says how much memory it has", "plan for a described machine: facts None"
        )
    return answer(machine, placed(machine, job))


def answer(machine: Machine, job: PlannedJob, hint: str = "") -> LaunchPlan:
    """The answer for a job that was laid out for this machine, with what each of its cards says; `hint` is how the
    caller is told an instance's size, where MIG has cut the cards."""
    plan = replace(verdict.answer(job), cards=machine.each)
    if not machine.parted or plan.verdict == verdict.NOT:
        return plan
    why = f"{machine.memory_gib:.0f} GiB are a whole card's, and MIG is on"
    return replace(plan, verdict=verdict.UNTOLD, parted=True, reason=f"{why}{hint and f'; {hint}'}")


def placed(machine: Machine, job: PlannedJob) -> PlannedJob:
    """The job on this machine's cards, with what is in use on them now and with its links."""
    used = machine.device.idle_gib if machine.used_gib is None else machine.used_gib
    assumed = [text for text in job.assumed if not text.startswith("links: ")]
    return replace(
        job,
        device=replace(machine.device, idle_gib=used),
        memory_gib=machine.memory_gib,
        assumed=(*assumed, *devices.assumed_links(machine.device, job.layout.cards)),
    )


def of_facts(
    facts: Facts, device: str = "auto", cards: int | None = None, said: Mapping[str, float] | None = None
) -> Machine:
    """The cards that are here; a vendor that was named and is not here is described by its usual node.  `said` is what
    was told of the cards besides, which describes a machine only together with their vendor."""
    if found := here(facts, device, cards):
        return found
    if device in VENDORS:
        return described(device, cards, None)
    if said:
        options = " ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in said.items())
        raise UsageError(
            f"{options} without --device: no accelerator of this machine says what it is",
            f"add --device {accelerator_choice()}" + ("" if "memory_gib" in said else ", and --memory-gib"),
        )
    raise UntoldError(
        "no accelerator says how much memory it has", "describe one: --device npu --cards 8 --memory-gib 64"
    )


def here(facts: Facts, device: str, cards: int | None) -> Machine | None:
    """The named vendor's cards, or the first vendor's that tells; of a CPU the host's own memory as one card."""
    if device == "cpu":
        return of_host(facts)
    some = (v for v in facts.vendors if device in ("auto", v.name))
    found = next(((v, machine) for v in some if (machine := of_vendor(v, cards))), None)
    return replace(found[1], said="" if cards else lost(facts, found[0])) if found else None


def lost(facts: Facts, v: VendorFacts) -> str:
    """What there is to say where the machine has more cards than its tool lists; else nothing."""
    if v.document and v.document.truncated:
        return f"machine: {len(v.devices)} cards; the tool's answer was cut off, there may be more"
    number = count_devices(facts, v)
    return f"machine: {number.listed} cards, though more are in it: {number}" if number.some_missing else ""


def of_host(facts: Facts) -> Machine:
    """The host's own memory as one card: what it has, and what others hold of it."""
    host = facts.host
    if not (host and host.memory_total_bytes):
        raise UntoldError("the host does not say how much memory it has", "describe it: --device cpu --memory-gib 64")
    total, free = host.memory_total_bytes, host.memory_available_bytes
    used = (total - free) / GIB if free is not None else None
    return Machine(devices.of_vendor("cpu"), 1, total / GIB, used)


def of_vendor(vendor: VendorFacts, cards: int | None = None, selected: tuple[int, ...] | None = None) -> Machine | None:
    """The emptiest `cards` of this vendor's, else all; the fullest of those decides.  None where no size is told.
    `selected`: of the cards at these places in the tool's list alone."""
    name = next((d.name for d in vendor.devices if d.name), None)
    kind = devices.find(f"{vendor.name} {name or ''}")
    known = [
        card_of(place, d, kind.idle_gib)
        for place, d in enumerate(vendor.devices)
        if d.memory_total_mib and (selected is None or place in selected)
    ]
    if not known:
        return None
    taken = sorted(known, key=lambda card: -card.free_gib)[:cards]
    places = sorted(card.place for card in taken)
    whole = vendor.topology and len(vendor.topology.names) == len(vendor.devices)
    return Machine(
        device=replace(
            kind,
            vendor=vendor.name,
            cards_per_node=max(kind.cards_per_node, len(vendor.devices)),
            links=links.measured(vendor.topology if whole else None, places, kind.pcie_gbs),
        ),
        cards=cards or len(known),
        memory_gib=taken[-1].memory_gib,
        used_gib=taken[-1].used_gib,
        each=tuple(replace(card, taken=card.place in places) for card in known),
        parted=any(is_cut(vendor.devices[place]) for place in places),
    )


def card_of(place: int, device: model.Device, idle_gib: float) -> CardMemory:
    """A card by the number that its tool shows; where the tool does not tell what is in use, as an idle one has it."""
    number = next((n for n in (device.index, device.phy_id, device.npu) if n is not None), place)
    used = device.memory_used_mib / MIB_IN_GIB if device.memory_used_mib is not None else idle_gib
    return CardMemory(place, number, (device.memory_total_mib or 0) / MIB_IN_GIB, used)


def described(device: str, cards: int | None, memory_gib: float | None, used_gib: float | None = None) -> Machine:
    """A machine that is not here: what was said of it, and for the rest the vendor's usual node."""
    kind = devices.of_vendor(device) if device in VENDORS else devices.find(device)
    usual = [] if cards else [f"{kind.cards_per_node} of them"]
    usual += [] if memory_gib else [f"{kind.memory_gib:g} GiB each"]
    said = f"machine: {kind.name} cards, {' and '.join(usual)} as usual" if usual else ""
    return Machine(kind, cards or kind.cards_per_node, memory_gib or kind.memory_gib, used_gib, said)

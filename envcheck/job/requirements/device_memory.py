"""The memory that a job requires on its devices, by the planner or else by its recipe, and who keeps it from the job.

Free is what the vendor's tool prints: total minus used.  What an idle device's driver holds of it decides only whether
somebody else holds the device; it never counts as free.
"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_job
from envcheck.core.derived.device_processes import find_processes, format_processes, inspect_commands
from envcheck.core.facts import CardFit, Facts, Fit, VendorFacts, Wanted
from envcheck.core.findings import commands, fail, follows, named, of_device, ok, plural, skip, unknown
from envcheck.core.model import Device, Finding, Status
from envcheck.core.units import mib
from envcheck.job.requirements.demand import (
    CPU,
    RECIPES,
    cite_recipe,
    count_needed,
    find_vendor,
    get_demand,
    list_candidates,
)
from envcheck.settings.thresholds import least_share

MIB_PER_GIB = 1024


def memory(facts: Facts) -> Iterator[Finding]:
    """Each device of the job is as large as the recipe names, and has free what the planner or else the recipe says."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.device in CPU or (wanted.memory_gib is None and wanted.fit is None):
        yield _planned(wanted.fit) if wanted.fit else skip("the job names no device memory")
    elif v is None or not v.devices:
        yield follows("job.device")
    elif all(d.memory_total_mib is None for _, d in list_candidates(wanted, v)):
        yield unknown("the tool shows no memory size of the devices", "See what the tool prints.", *commands(v, "list"))
    elif found := _find_small(facts, v) or _find_held(facts, v):
        yield found
    else:
        yield _planned(wanted.fit) if wanted.fit else _compare_free(facts, v)


def find_crowded(facts: Facts, v: VendorFacts) -> list[Device]:
    """The devices that would do for the job, did nobody else hold memory of them, where too few others are left."""
    wanted = facts.wanted
    if wanted is None or v.name != wanted.device or (wanted.memory_gib is None and wanted.fit is None):
        return []
    if _list_small(facts, v):
        return []  # too small, whoever holds them
    candidates = [(place, d) for place, d in list_candidates(wanted, v) if d.memory_total_mib is not None]
    held = [d for place, d in candidates if _is_held(facts, v, place, d)]
    return held if len(candidates) - len(held) < count_needed(wanted, candidates) else []


def free_mib(device: Device) -> int:
    """As the tool prints it; a device of which it shows no use has all of it free."""
    return (device.memory_total_mib or 0) - (device.memory_used_mib or 0)


def _list_small(facts: Facts, v: VendorFacts) -> list[Device]:
    """The devices that are smaller than the recipe says, where too few others are left; one of unknown size counts."""
    wanted = get_demand(facts)
    least = (wanted.memory_gib or 0) * MIB_PER_GIB * least_share(facts)
    candidates = list_candidates(wanted, v)
    small = [d for _, d in candidates if d.memory_total_mib is not None and d.memory_total_mib < least]
    return small if len(candidates) - len(small) < count_needed(wanted, candidates) else []


def _find_small(facts: Facts, v: VendorFacts) -> Finding | None:
    wanted, small = get_demand(facts), _list_small(facts, v)
    if not small:
        return None
    needed = _count_devices(wanted, v)
    size = mib(max(d.memory_total_mib or 0 for d in small))
    return fail(
        f"{named(small)}: {size} of memory; this job needs {needed} of {wanted.memory_gib:g} GiB",
        "Use larger devices, or choose another --method.",
        RECIPES,
        evidence=cite_recipe(facts, memory_gib=wanted.memory_gib),
    )


def _find_held(facts: Facts, v: VendorFacts) -> Finding | None:
    """In the place of devices.processes, which tells of the same processes."""
    wanted, held = get_demand(facts), find_crowded(facts, v)
    if not held:
        return None
    here = find_processes(v, held)
    owners = f", held by {format_processes(here)}" if here else ""
    seen = f"{named(held)}: {mib(min(map(free_mib, held)))} of memory free{owners}; {_say_need(wanted, v)}"
    shown = of_device(v, max(held, key=lambda d: d.memory_used_mib or 0), "memory_used_mib")
    words, look = "Stop the processes that hold the memory.", (*inspect_commands(v, here), *commands(v, "list"))
    if wanted.fit and all(_get_fit(wanted, place) is None for place, d in enumerate(v.devices) if d in held):
        return unknown(seen, words, *look, evidence=shown)
    return fail(seen, words, *look, evidence=shown)


def _compare_free(facts: Facts, v: VendorFacts) -> Finding:
    """By the recipe's figure, where nobody else holds a device."""
    wanted = get_demand(facts)
    candidates = [(place, d) for place, d in list_candidates(wanted, v) if d.memory_total_mib is not None]
    tight = [d for place, d in candidates if not _has_room(facts, v, place, d)]
    least = min((free_mib(d) for _, d in candidates if d not in tight), default=0)
    if len(candidates) - len(tight) >= count_needed(wanted, candidates):
        return ok(f"{mib(least)} of memory free on each device; {_say_need(wanted, v)}")
    seen = f"{named(tight)}: {mib(max(map(free_mib, tight)))} of memory free; {_say_need(wanted, v)}"
    words = "Use larger devices, or choose another --method."
    return fail(seen, words, RECIPES, evidence=of_device(v, tight[0], "memory_used_mib"))


def _say_need(wanted: Wanted, v: VendorFacts) -> str:
    if wanted.fit:
        return wanted.fit.reason
    needed = _count_devices(wanted, v)
    size = wanted.memory_gib if wanted.free_gib is None else wanted.free_gib
    return f"this job needs {size:g} GiB on {needed}"


def _count_devices(wanted: Wanted, v: VendorFacts) -> str:
    return plural(len(v.devices) if wanted.cards is None else wanted.cards, "device")


def _is_held(facts: Facts, v: VendorFacts, place: int, device: Device) -> bool:
    """Whether somebody else keeps it from the job."""
    wanted, used, idle = get_demand(facts), device.memory_used_mib or 0, v.vendor.idle_memory_mib
    if used <= idle or _has_room(facts, v, place, device):
        return False
    if planned := _find_card(wanted.fit, place):
        return planned.fits_idle is True
    return wanted.free_gib is None or (device.memory_total_mib or 0) - idle >= wanted.free_gib * MIB_PER_GIB


def _has_room(facts: Facts, v: VendorFacts, place: int, device: Device) -> bool:
    """Whether it has free what the planner, or else the recipe says.

    A figure that not even an idle device has free is the size of a device that is sold: nobody else may hold memory of
    it, beyond what sizes differ by.
    """
    wanted = get_demand(facts)
    if planned := _find_card(wanted.fit, place):
        return planned.fits is True
    free, total, idle = free_mib(device), device.memory_total_mib or 0, v.vendor.idle_memory_mib
    if wanted.free_gib is not None:
        return free >= wanted.free_gib * MIB_PER_GIB
    size = (wanted.memory_gib or 0) * MIB_PER_GIB
    others = max(0, (device.memory_used_mib or 0) - idle)
    return free >= size or (free > 0 and size > total - idle and total - others >= size * least_share(facts))


def _get_fit(wanted: Wanted, place: int) -> bool | None:
    planned = _find_card(wanted.fit, place)
    return planned.fits if planned else None


def _find_card(fit: Fit | None, place: int) -> CardFit | None:
    return next((card for card in fit.cards if card.place == place), None) if fit else None


def _planned(fit: Fit) -> Finding:
    status = {True: Status.OK, False: Status.FAIL, None: Status.UNKNOWN}[fit.fits]
    return Finding("", status, fit.reason, fit.remedy)


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.memory",
        memory,
        reads="the vendor's tool, the memory planner",
        rule="FAIL when a device is smaller than the recipe names, somebody holds memory that the job needs, or the "
        "planner says that it does not fit",
        fix="The planner's smallest change.",
    ),
)

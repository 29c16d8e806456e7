"""Device memory that a job requires, from the planner or else the recipe, and the processes that hold it.

Free memory is total minus used, as the vendor's tool prints them.  The memory that the driver holds on an idle device
only decides whether another process uses the device; it never counts as free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.derived.device_processes import find_processes, format_processes, process_inspect_commands
from envcheck.core.facts import CardFit, Facts, JobFit, MachineRequirements, VendorFacts
from envcheck.core.findings import fail, name_devices, ok, quote_device, skip, skipped_because, unknown, vendor_commands
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.model import Device, Finding, Process, Status, diagnose
from envcheck.core.units import format_mib
from envcheck.job.requirements.demand import (
    CPU,
    RECIPES,
    cite_recipe,
    count_needed,
    find_vendor,
    get_demand,
    list_candidates,
)
from envcheck.settings.thresholds import minimum_size_share
from probes.host import schemas

MIB_PER_GIB = 1024


def check_memory(facts: Facts) -> Iterator[Finding]:
    """Each device has the memory that the recipe requires, and enough free memory for the job."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.device in CPU or (wanted.memory_gib is None and wanted.fit is None):
        yield _judge_plan(wanted.fit) if wanted.fit else skip(_("the job has no device memory requirement"))
    elif v is None or not v.devices:
        yield skipped_because("job.device")
    elif all(d.memory_total_mib is None for _unused, d in list_candidates(wanted, v)):
        yield unknown(
            _("the vendor tool does not report the memory size of the devices"),
            diagnose(_("Check the output of the vendor tool."), *vendor_commands(v, "list")),
        )
    elif found := _find_small(facts, v) or _find_held(facts, v):
        yield found
    else:
        yield _judge_plan(wanted.fit) if wanted.fit else _compare_free(facts, v)


def find_crowded(facts: Facts, v: VendorFacts) -> list[Device]:
    """Return the devices whose memory other processes hold, if too few others remain for the job; else []."""
    wanted = facts.wanted
    if wanted is None or v.name != wanted.device or (wanted.memory_gib is None and wanted.fit is None):
        return []
    if _list_small(facts, v):
        return []  # too small even when idle
    candidates = [(place, d) for place, d in list_candidates(wanted, v) if d.memory_total_mib is not None]
    held = [d for place, d in candidates if _is_held(facts, v, place, d)]
    return held if len(candidates) - len(held) < count_needed(wanted, candidates) else []


def free_mib(device: Device) -> int:
    """Return total minus used memory, MiB; a device without a figure for used memory counts as free."""
    return (device.memory_total_mib or 0) - (device.memory_used_mib or 0)


def _list_small(facts: Facts, v: VendorFacts) -> list[Device]:
    """Return the devices smaller than the recipe requires, if too few others remain; an unknown size passes."""
    wanted = get_demand(facts)
    least = (wanted.memory_gib or 0) * MIB_PER_GIB * minimum_size_share(facts)
    candidates = list_candidates(wanted, v)
    small = [d for _unused, d in candidates if d.memory_total_mib is not None and d.memory_total_mib < least]
    return small if len(candidates) - len(small) < count_needed(wanted, candidates) else []


def _find_small(facts: Facts, v: VendorFacts) -> Finding | None:
    wanted, small = get_demand(facts), _list_small(facts, v)
    if not small:
        return None
    needed = _count_devices(wanted, v)
    size = format_mib(max(d.memory_total_mib or 0 for d in small))
    return fail(
        _(
            "{small}: {size} of memory; this job needs {needed} of {memory_gib:g} GiB",
            small=name_devices(small),
            size=size,
            needed=needed,
            memory_gib=wanted.memory_gib,
        ),
        diagnose(_("Use larger devices, or choose another --method."), RECIPES),
        evidence=cite_recipe(facts, memory_gib=wanted.memory_gib),
    )


def _find_held(facts: Facts, v: VendorFacts) -> Finding | None:
    """Return the finding about other processes' memory; it replaces devices.processes, which reports the same ones."""
    wanted, held = get_demand(facts), find_crowded(facts, v)
    if not held:
        return None
    here = find_processes(v, held)
    devices, need = name_devices(held), _describe_need(wanted, v)
    free = format_mib(min(map(free_mib, held)))
    seen = (
        _(
            "{devices}: {free} of memory free (in use by {owners}); {need}",
            devices=devices,
            free=free,
            owners=format_processes(here),
            need=need,
        )
        if here
        else _("{devices}: {free} of memory free; {need}", devices=devices, free=free, need=need)
    )
    shown = quote_device(v, max(held, key=lambda d: d.memory_used_mib or 0), "memory_used_mib")
    words, look = (
        _("Stop the processes that use the memory."),
        (*process_inspect_commands(v, here), *vendor_commands(v, "list")),
    )
    if runs := _list_orphaned_runs(facts, here):
        words = _("Stop the run whose supervisor was killed, or supervise it again with `envcheck runs adopt`.")
        look = (*(f"envcheck runs stop {run}" for run in runs), *look)
    if (
        wanted.fit
        and wanted.free_gib is None
        and all(_get_fit(wanted, place) is None for place, d in enumerate(v.devices) if d in held)
    ):
        return unknown(seen, diagnose(words, *look), evidence=shown)
    return fail(seen, diagnose(words, *look), evidence=shown)


def _list_orphaned_runs(facts: Facts, here: Iterable[Process]) -> list[str]:
    """Return the ids of envcheck's runs without supervisor that these processes belong to."""
    seen = schemas.read_processes(facts)
    runs = {holder.pid: holder.run for holder in (seen.holding if seen else ()) if holder.run}
    return list(dict.fromkeys(runs[p.pid] for p in here if p.pid in runs))


def _compare_free(facts: Facts, v: VendorFacts) -> Finding:
    """Compare free memory with the recipe's figure; no other process holds a device."""
    wanted = get_demand(facts)
    candidates = [(place, d) for place, d in list_candidates(wanted, v) if d.memory_total_mib is not None]
    tight = [d for place, d in candidates if not has_room(facts, v, place, d)]
    least = min((free_mib(d) for _unused, d in candidates if d not in tight), default=0)
    if len(candidates) - len(tight) >= count_needed(wanted, candidates):
        return ok(
            _("{least} of memory free on each device; {need}", least=format_mib(least), need=_describe_need(wanted, v))
        )
    seen = _(
        "{devices}: {free} of memory free; {need}",
        devices=name_devices(tight),
        free=format_mib(max(map(free_mib, tight))),
        need=_describe_need(wanted, v),
    )
    words = _("Use larger devices, or choose another --method.")
    return fail(seen, diagnose(words, RECIPES), evidence=quote_device(v, tight[0], "memory_used_mib"))


def _describe_need(wanted: MachineRequirements, v: VendorFacts) -> Message:
    if wanted.fit:
        return wanted.fit.reason
    needed = _count_devices(wanted, v)
    size = wanted.memory_gib if wanted.free_gib is None else wanted.free_gib
    return _("this job needs {size:g} GiB on {needed}", size=size, needed=needed)


def _count_devices(wanted: MachineRequirements, v: VendorFacts) -> Message:
    return ngettext("{count} device", "{count} devices", len(v.devices) if wanted.cards is None else wanted.cards)


def _is_held(facts: Facts, v: VendorFacts, place: int, device: Device) -> bool:
    """Whether another process' memory is the reason that the job does not fit on this device."""
    wanted, used, idle = get_demand(facts), device.memory_used_mib or 0, v.vendor.idle_memory_mib
    if used <= idle or has_room(facts, v, place, device):
        return False
    if planned := _find_card(wanted.fit, place):
        return planned.fits_idle is True
    return wanted.free_gib is None or (device.memory_total_mib or 0) - idle >= wanted.free_gib * MIB_PER_GIB


def has_room(facts: Facts, v: VendorFacts, place: int, device: Device) -> bool:
    """Whether the device has the free memory that the planner, or else the recipe, requires.

    A figure above what an idle device has free is the nominal size of a device: then no other process may hold memory,
    within the tolerance for nominal sizes.
    """
    wanted = get_demand(facts)
    if planned := _find_card(wanted.fit, place):
        return planned.fits is True
    free, total, idle = free_mib(device), device.memory_total_mib or 0, v.vendor.idle_memory_mib
    if wanted.free_gib is not None:
        return free >= wanted.free_gib * MIB_PER_GIB
    size = (wanted.memory_gib or 0) * MIB_PER_GIB
    others = max(0, (device.memory_used_mib or 0) - idle)
    return free >= size or (free > 0 and size > total - idle and total - others >= size * minimum_size_share(facts))


def _get_fit(wanted: MachineRequirements, place: int) -> bool | None:
    planned = _find_card(wanted.fit, place)
    return planned.fits if planned else None


def _find_card(fit: JobFit | None, place: int) -> CardFit | None:
    return next((card for card in fit.cards if card.place == place), None) if fit else None


def _judge_plan(fit: JobFit) -> Finding:
    status = {True: Status.OK, False: Status.FAIL, None: Status.UNKNOWN}[fit.fits]
    return Finding("", status, fit.reason, fit.remedy)


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.memory",
        check_memory,
        reads="the vendor tool, the memory planner",
        rule=(
            "FAIL if a device is smaller than the recipe requires, another process holds memory that the job needs, "
            "or the plan does not fit"
        ),
        fix="Apply the smallest change that the planner suggests.",
    ),
)

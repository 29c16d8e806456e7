"""The memory that a job's recipe wants free on the devices, and which of them somebody keeps too full for it; pure."""

from __future__ import annotations

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Device
from envcheck.settings.thresholds import least_share

MIB_PER_GIB = 1024


def least_mib(facts: Facts) -> float | None:
    """What each device must show; None where no job says it."""
    wanted = facts.wanted
    if wanted is None or wanted.memory_gib is None or wanted.device in ("cpu", ""):
        return None
    return wanted.memory_gib * MIB_PER_GIB * least_share(facts)


def free_mib(v: VendorFacts, device: Device) -> float | None:
    """What an idle device's driver holds does not count as taken."""
    if device.memory_total_mib is None:
        return None
    return device.memory_total_mib - max(0, (device.memory_used_mib or 0) - v.vendor.idle_memory_mib)


def crowded(facts: Facts, v: VendorFacts) -> list[Device]:
    """The devices that are large enough and too full, where too few are left for the job; else none."""
    least, wanted = least_mib(facts), facts.wanted
    if least is None or wanted is None or v.name != wanted.device:
        return []
    told = [(d, free) for d in v.devices if (free := free_mib(v, d)) is not None]
    if not told or any((d.memory_total_mib or 0) < least for d, _ in told):
        return []  # too small, or nobody tells: no matter of who holds it
    full = [d for d, free in told if free < least]
    enough = min(wanted.cards or len(v.devices), len(v.devices))  # that there are fewer is job.cards' to tell
    return full if len(told) - len(full) < enough else []

"""What kind of devices they are: alike, whole cards, uncut, of a generation that is trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    of_device,
    ok,
    unknown,
    warn,
)
from envcheck.core.model import Device, Finding


def uniform(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are of one kind and size: the slowest sets the pace, the smallest the plan."""
    kinds = Counter((d.name, d.memory_total_mib) for d in v.devices)
    if any(total is None or name is None for name, total in kinds):
        yield unknown("the tool does not show name and memory of each device")
    elif len(kinds) > 1:
        seen = ", ".join(f"{n} × {name} with {total} MiB" for (name, total), n in kinds.most_common())
        words = f"Choose devices of one kind: {v.vendor.visible_env}=0,1,..."
        odd = next(d for d in v.devices if (d.name, d.memory_total_mib) == kinds.most_common()[-1][0])
        yield warn(seen, words, *commands(v, "list"), evidence=of_device(v, odd, "memory_total_mib"))
    else:
        (name, total), n = next(iter(kinds.items()))
        yield ok(f"{n} × {name}, {total} MiB each")


def is_cut(device: Device) -> bool:
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.uniform",
        uniform,
        reads="the vendor's tool",
        source="the slowest device sets the pace",
        rule="WARN when names or memory differ",
        fix="Choose devices of one kind.",
    ),
)

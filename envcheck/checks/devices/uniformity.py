"""Checks that the devices are of one model and memory size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    ok,
    quote_device,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import _, join, mark
from envcheck.core.model import Device, Finding, diagnose


def check_uniform(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """All devices have the same model and memory; the slowest sets the pace, the smallest limits the plan."""
    kinds = Counter((d.name, d.memory_total_mib) for d in v.devices)
    if any(total is None or name is None for name, total in kinds):
        yield unknown(_("the vendor tool does not report the name and memory of every device"))
    elif len(kinds) > 1:
        seen = join(
            ", ",
            (
                _("{n} × {name} with {total} MiB", n=n, name=name, total=total)
                for (name, total), n in kinds.most_common()
            ),
        )
        words = _("Select devices of one model: {visible_env}=0,1,...", visible_env=v.vendor.visible_env)
        odd = next(d for d in v.devices if (d.name, d.memory_total_mib) == kinds.most_common()[-1][0])
        yield warn(
            seen, diagnose(words, *vendor_commands(v, "list")), evidence=quote_device(v, odd, "memory_total_mib")
        )
    else:
        (name, total), n = next(iter(kinds.items()))
        yield ok(_("{n} × {name}, {total} MiB each", n=n, name=name, total=total))


def is_partitioned(device: Device) -> bool:
    """Return whether the device is split into MIG instances."""
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.uniform",
        check_uniform,
        reads="the vendor tool",
        source=mark("collective operations wait for the slowest device"),
        rule="WARN if names or memory differ",
        fix="Choose devices of one model.",
    ),
)

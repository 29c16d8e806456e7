"""What people call a vendor's devices: one way from words to names, for each option that takes them."""

from __future__ import annotations

import difflib

from envcheck.core.errors import UsageError
from envcheck.vendors import REFUSED, VENDORS

AUTO = "auto"


def device_names() -> tuple[str, ...]:
    """All that --device takes by its own name: the vendors, and auto."""
    return (*VENDORS, AUTO)


def accelerator_names() -> tuple[str, ...]:
    """The vendors that have devices of their own."""
    return tuple(name for name, vendor in VENDORS.items() if vendor.devices)


def accelerator_choice() -> str:
    """The vendors whose cards have a tool, as a usage line has a choice: npu|iluvatar|nvidia."""
    return "|".join(vendor.name for vendor in VENDORS.values() if vendor.tool)


def resolve_device(said: str, option: str = "--device") -> str:
    """The vendor's name for a name or an alias in any case; UsageError for what several vendors claim, or none."""
    word = said.strip().lower()
    if word in device_names():
        return word
    claiming = [vendor for vendor in VENDORS.values() if word in vendor.aliases]
    if len(claiming) == 1:
        return claiming[0].name
    if claiming:
        ways = ", or ".join(f"{option} {vendor.name} for {vendor.title} cards" for vendor in claiming)
        raise UsageError(f"{option} {said} could mean several vendors", f"write {ways}")
    aliases = {alias: vendor.name for vendor in VENDORS.values() for alias in vendor.aliases}
    near = difflib.get_close_matches(word, [*device_names(), *aliases], n=3, cutoff=0.6)
    names = list(dict.fromkeys(aliases.get(name, name) for name in near))
    if names:
        raise UsageError(f"there is no device {said!r}", f"did you mean {', '.join(names)}?")
    broken = "".join(f"; {name} was left out: {why}" for name, why in REFUSED.items())
    raise UsageError(f"there is no device {said!r}", f"choose one of {', '.join(device_names())}{broken}")

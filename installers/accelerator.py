"""The machine's accelerators, as far as provisioning asks: whose they are, and which driver runs them."""

from __future__ import annotations

from envcheck import facts, machine
from envcheck.checks.driver import driver_version
from envcheck.errors import UsageError
from envcheck.vendors import VENDORS


def device_here() -> str:
    """The one vendor whose cards are in this machine; cpu where there is none."""
    vendors = [vendor for vendor in VENDORS.values() if vendor.pci_vendor]
    answers = machine.ask_all(machine.here(), [q for vendor in vendors for q in vendor.presence])
    found = [vendor.name for vendor in vendors if facts.present(vendor, answers)]
    if len(found) > 1:
        raise UsageError(f"this machine has cards of {' and '.join(found)}", f"say --device {found[0]} or another")
    return found[0] if found else "cpu"


def driver_here(device: str) -> str | None:
    """The version of the driver that runs the vendor's cards; None where there is none, or it is not told."""
    known = facts.gather(machine.here(), device)
    return next((driver_version(v) for v in known.vendors if v.name == device), None)

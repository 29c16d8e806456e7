"""Whether the vendor's kernel module is loaded."""

from __future__ import annotations

from fnmatch import fnmatch

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Outcome
from probes.host import schemas


def is_module_gone(facts: Facts, v: VendorFacts) -> bool:
    """Return whether the tool fails because no driver module is loaded: devices are on the bus, and the tool is
    installed."""
    seen = schemas.read_kernel(facts)
    absent = v.tool is None or v.tool.outcome is Outcome.ABSENT
    there = seen is None or select_vendor_modules(v, seen.loaded) or v.devices or v.nodes or not v.pci
    return not there and not absent


def select_vendor_modules(v: VendorFacts, names: tuple[str, ...]) -> list[str]:
    """Return the modules that belong to this vendor."""
    return [name for name in names if any(fnmatch(name, pattern) for pattern in v.vendor.kernel_modules)]

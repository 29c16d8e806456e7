"""The vendor's kernel module, among those that are loaded."""

from __future__ import annotations

from fnmatch import fnmatch

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Outcome
from probes.host import schemas


def is_gone(facts: Facts, v: VendorFacts) -> bool:
    """Whether the tool fails because no module of the driver is loaded: cards are on the bus, and the tool is there."""
    seen = schemas.kernel(facts)
    absent = v.tool is None or v.tool.outcome is Outcome.ABSENT
    there = seen is None or of_vendor(v, seen.loaded) or v.devices or v.nodes or not v.pci
    return not there and not absent


def of_vendor(v: VendorFacts, names: tuple[str, ...]) -> list[str]:
    """Those of the modules that are this vendor's."""
    return [name for name in names if any(fnmatch(name, pattern) for pattern in v.vendor.kernel_modules)]

"""Which of the vendor's toolkits the environment puts in force."""

from __future__ import annotations

import re

from envcheck.core.facts import Facts, VendorFacts


def in_force(facts: Facts, v: VendorFacts) -> set[str]:
    """The trees that the library path names, by their folders' names."""
    path = (facts.environment or {}).get("LD_LIBRARY_PATH", "")
    found = re.finditer(v.vendor.toolkit_path, path) if v.vendor.toolkit_path else ()
    return {next(filter(None, m.groups())) for m in found}

"""Which of the vendor's toolkits the environment activates."""

from __future__ import annotations

import re

from envcheck.core.facts import Facts, VendorFacts


def find_active_toolkits(facts: Facts, v: VendorFacts) -> set[str]:
    """Return the folder names of the toolkits on LD_LIBRARY_PATH."""
    path = (facts.environment or {}).get("LD_LIBRARY_PATH", "")
    found = re.finditer(v.vendor.toolkit_path, path) if v.vendor.toolkit_path else ()
    return {next(filter(None, m.groups())) for m in found}

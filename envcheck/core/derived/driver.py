"""What the vendor's tool says of the driver."""

from __future__ import annotations

from envcheck.core.facts import VendorFacts


def no_device(v: VendorFacts) -> bool:
    """The tool works, and says that there is none."""
    return bool(v.document and v.document.error and v.document.error.category == "no-device")

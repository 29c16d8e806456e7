"""What the vendor's tool says of the driver."""

from __future__ import annotations

from envcheck.core.facts import VendorFacts


def no_device(v: VendorFacts) -> bool:
    """The tool works, and says that there is none."""
    return bool(v.document and v.document.error and v.document.error.category == "no-device")


def unlisted_because(v: VendorFacts) -> str:
    """The check that failed where the tool lists no device: the tool did not answer, not all, or answered "none"."""
    if v.document and v.document.truncated:
        return "driver.whole_answer"
    silent = v.document is None or (v.document.kind in ("unknown", "error") and not no_device(v))
    return "driver.tool" if silent else "devices.present"

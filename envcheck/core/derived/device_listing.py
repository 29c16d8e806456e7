"""The vendor tool's listing of devices."""

from __future__ import annotations

from envcheck.core.facts import VendorFacts


def reports_no_device(v: VendorFacts) -> bool:
    """Return whether the tool works, and reports that there is no device."""
    return bool(v.document and v.document.error and v.document.error.category == "no-device")


def find_listing_cause(v: VendorFacts) -> str:
    """Return the check that failed if the tool lists no device: no answer, a truncated one, or no device."""
    if v.document and v.document.truncated:
        return "driver.whole_answer"
    silent = v.document is None or (v.document.kind in ("unknown", "error") and not reports_no_device(v))
    return "driver.tool" if silent else "devices.present"

"""The vendors that envcheck knows: one folder each, and one record in VENDORS.

To add one: a folder here with a record, its parser in probes/, recordings, a recipe.
"""

from __future__ import annotations

from envcheck.core.vendor import Vendor
from envcheck.vendors import ascend, cpu, iluvatar, nvidia

VENDORS: dict[str, Vendor] = {
    vendor.name: vendor for vendor in (ascend.VENDOR, iluvatar.VENDOR, nvidia.VENDOR, cpu.VENDOR)
}

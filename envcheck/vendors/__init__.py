"""The vendors that envcheck knows: one folder each, and one record in VENDORS.

A folder exports VENDOR.  Parts with fixed names are picked up where they exist: checks.py, lint.py, simulate.py,
codes.toml, compat.toml, devices.toml, driver.toml, explain.toml, scheduler.toml.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from envcheck.core.vendor import Vendor
from envcheck.vendors import ascend, cpu, iluvatar, nvidia

VENDORS: dict[str, Vendor] = {
    vendor.name: vendor for vendor in (ascend.VENDOR, iluvatar.VENDOR, nvidia.VENDOR, cpu.VENDOR)
}


def load_modules(name: str) -> Iterator[tuple[Vendor, ModuleType]]:
    """Each vendor's module of this name, imported; vendors without one are left out."""
    for vendor in VENDORS.values():
        if importlib.util.find_spec(f"{vendor.package}.{name}"):
            yield vendor, importlib.import_module(f"{vendor.package}.{name}")


def find_data_files(name: str) -> Iterator[tuple[Vendor, Path]]:
    """Each vendor's data file of this name; vendors without one are left out."""
    for vendor in VENDORS.values():
        package = importlib.import_module(vendor.package)
        for folder in package.__path__:
            if (path := Path(folder) / name).is_file():
                yield vendor, path

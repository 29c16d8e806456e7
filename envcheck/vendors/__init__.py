"""The vendors that envcheck knows: one folder each, and one record in VENDORS.

A folder exports VENDOR.  Parts with fixed names are picked up where they exist: checks.py, lint.py, simulate.py,
compat.toml, devices.toml, driver.toml, explain.toml, scheduler.toml.  Other distributions add vendors by the entry
point group `envcheck.vendors`, whose value is the vendor's package; one that cannot be taken is named in REFUSED.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from envcheck.core import plugins
from envcheck.core.vendor import Vendor
from envcheck.vendors import ascend, cpu, iluvatar, nvidia

GROUP = "envcheck.vendors"
OWN = (ascend.VENDOR, iluvatar.VENDOR, nvidia.VENDOR, cpu.VENDOR)
REFUSED: dict[str, str] = {}  # entry point -> why its vendor, or a part of it, is left out


def _added() -> Iterator[Vendor]:
    """The vendors of other distributions; a package's fault costs nothing but that vendor."""
    taken = {vendor.name for vendor in OWN}
    for point in plugins.entry_points(GROUP):
        try:
            offered = point.load()
            vendor = getattr(offered, "VENDOR", offered)
            why = _fault(vendor, taken)
        except Exception as err:
            why = f"{type(err).__name__}: {err}"
        if why:
            REFUSED[point.name] = why
        else:
            taken.add(vendor.name)
            yield vendor


def _fault(vendor: object, taken: set[str]) -> str:
    """Why it cannot be a vendor; "" where it can."""
    if not isinstance(vendor, Vendor):
        return "its package has no record VENDOR of envcheck.core.vendor.Vendor"
    wanted = ("name", "package", "title", "tool", "parser", "pci_vendor", "node_pattern", "devices")
    if missing := [name for name in wanted if not getattr(vendor, name)]:
        return f"its record leaves empty: {', '.join(missing)}"
    if vendor.name in taken or vendor.name == "auto" or vendor.name != vendor.name.lower():
        return f"the name {vendor.name!r} is taken, or not in lower case"
    return "" if importlib.util.find_spec(vendor.parser) else f"there is no module {vendor.parser}, its parser"


VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in (*OWN[:-1], *_added(), OWN[-1])}


def load_modules(name: str) -> Iterator[tuple[Vendor, ModuleType]]:
    """Each vendor's module of this name, imported; vendors without one are left out."""
    for vendor in VENDORS.values():
        try:
            if importlib.util.find_spec(f"{vendor.package}.{name}"):
                yield vendor, importlib.import_module(f"{vendor.package}.{name}")
        except Exception as err:
            if vendor in OWN:
                raise
            REFUSED[vendor.name] = f"{vendor.package}.{name}: {type(err).__name__}: {err}"


def find_data_files(name: str) -> Iterator[tuple[Vendor, Path]]:
    """Each vendor's data file of this name; vendors without one are left out."""
    for vendor in VENDORS.values():
        package = importlib.import_module(vendor.package)
        for folder in package.__path__:
            if (path := Path(folder) / name).is_file():
                yield vendor, path

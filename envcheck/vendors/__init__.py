"""The supported vendors: one folder each, and one record in VENDORS.

A folder exports VENDOR. Files with fixed names are found automatically: checks.py, lint.py, simulate.py, compat.toml,
devices.toml, driver.toml, explain.toml, scheduler.toml.  Other distributions add vendors by the entry point group
`envcheck.vendors`, whose value is the vendor's package; REFUSED has those that could not be loaded.  Translations are
in <package>/locale/<locale>/LC_MESSAGES/envcheck.mo.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from envcheck.core import language, plugins, table_pack
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.vendor import Vendor
from envcheck.vendors import ascend, cpu, iluvatar, kunlunxin, nvidia

GROUP = "envcheck.vendors"
OWN = (ascend.VENDOR, iluvatar.VENDOR, nvidia.VENDOR, kunlunxin.VENDOR, cpu.VENDOR)
REFUSED: dict[str, Message] = {}  # entry point -> why its vendor, or a part of it, was not loaded


def _load_added_vendors() -> Iterator[Vendor]:
    """Yield the vendors of other distributions; an error in a package affects only its vendor."""
    taken = {vendor.name for vendor in OWN}
    for point in plugins.find_entry_points(GROUP):
        try:
            offered = point.load_object()
            vendor = getattr(offered, "VENDOR", offered)
            why = _explain_refusal(vendor, taken)
        except Exception as err:
            why = verbatim(f"{type(err).__name__}: {err}")
        if why:
            REFUSED[point.name] = why
        else:
            taken.add(vendor.name)
            _add_catalogue(vendor)
            yield vendor


def _add_catalogue(vendor: Vendor) -> None:
    """Add the translations in the vendor's package."""
    package = importlib.util.find_spec(vendor.package)
    for place in (package.submodule_search_locations or []) if package else []:
        language.CATALOGUE_FOLDERS.append(Path(place) / "locale")


def _explain_refusal(vendor: object, taken: set[str]) -> Message:
    """Return why the object is not a valid vendor, "" if it is."""
    if not isinstance(vendor, Vendor):
        return _("the package has no VENDOR record of type envcheck.core.vendor.Vendor")
    wanted = ("name", "package", "title", "tool", "parser", "pci_vendor", "node_pattern", "devices")
    if missing := [name for name in wanted if not getattr(vendor, name)]:
        return _("the vendor record lacks {missing}", missing=join(", ", missing))
    if vendor.name in taken or vendor.name == "auto" or vendor.name != vendor.name.lower():
        return _("the name {name!r} is already used, or is not in lower case", name=vendor.name)
    return (
        NOTHING
        if importlib.util.find_spec(vendor.parser)
        else _("the parser module {parser} does not exist", parser=vendor.parser)
    )


VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in (*OWN[:-1], *_load_added_vendors(), OWN[-1])}


def load_modules(name: str) -> Iterator[tuple[Vendor, ModuleType]]:
    """Yield each vendor's module of this name; vendors without one are skipped."""
    for vendor in VENDORS.values():
        try:
            if importlib.util.find_spec(f"{vendor.package}.{name}"):
                yield vendor, importlib.import_module(f"{vendor.package}.{name}")
        except Exception as err:
            if vendor in OWN:
                raise
            REFUSED[vendor.name] = verbatim(f"{vendor.package}.{name}: {type(err).__name__}: {err}")


def find_data_files(name: str) -> Iterator[tuple[Vendor, Path]]:
    """Yield each vendor's data file of this name; vendors without one are skipped."""
    for vendor in VENDORS.values():
        package = importlib.import_module(vendor.package)
        for folder in package.__path__:
            if table_pack.has_file(path := Path(folder) / name):
                yield vendor, path

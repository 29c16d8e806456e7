"""The installed versions by component, from vendor tools, version files and package metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from envcheck.compat.components import load_components
from envcheck.compat.version_records import Confidence, PairStatus, VersionRow
from envcheck.core.derived.installed_versions import firmware_range, firmware_version, toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.messages import _


def detect_versions(facts: Facts) -> dict[str, str]:
    """Return the known versions of the host and of the Python on its PATH; unknown ones are left out."""
    found = {name: version for v in facts.vendors for name, version in _vendor_versions(facts, v).items() if name}
    found["architecture"] = facts.host.architecture if facts.host else None
    if facts.packages:
        packages = facts.packages.packages
        found["python"] = facts.packages.python
        found |= {name: version for name, version in packages.items() if name in load_components()}
        found |= _match_package_labels(packages, {v.name for v in facts.vendors})
    return {name: version for name, version in found.items() if version}


def _vendor_versions(facts: Facts, v: VendorFacts) -> dict[str, str | None]:
    """Return versions by component; the key is "" if the vendor's record names no component."""
    chip = next((device.name for device in v.devices if device.name), None)
    return {
        v.vendor.driver_component: driver_version(v),
        v.vendor.firmware_component: firmware_version(v),
        v.vendor.toolkit_component: toolkit_version(facts, v),
        v.vendor.chip_component: chip,
    }


def _match_package_labels(packages: Mapping[str, str], vendors: Collection[str]) -> dict[str, str]:
    """Return packages with a shared name by vendor, as the version's label shows: torch 2.7.1+cu128,
    2.7.1+corex.4.4.0."""
    found = {}
    for name, component in load_components().items():
        version = packages.get(component.package) if component.vendor in vendors else None
        label = (version or "").partition("+")[2]
        if version and any(label.startswith(start) if start else not label for start in component.labels):
            found[name] = version
    return found


def list_machine_rows(facts: Facts) -> Iterator[VersionRow]:
    """Yield version rows from the host's own files: the firmware versions that its driver supports."""
    for v in facts.vendors:
        yield from make_firmware_rows(v)


def make_firmware_rows(v: VendorFacts) -> Iterator[VersionRow]:
    """Yield compatible_version_fw of the driver's version.info as rows: inside the range tested, outside known bad."""
    low, high = firmware_range(v)
    driver, firmware = driver_version(v), v.vendor.firmware_component
    if not (low and high and driver and firmware):
        return
    within, outside = (f">={low},<={high}",), (f"<{low}", f">{high}")
    fine = VersionRow(
        of=v.vendor.driver_component,
        version=(driver,),
        others={firmware: within},
        standing=PairStatus.TESTED,
        confidence=Confidence.DOCUMENTED,
        source=("compatible_version_fw of the driver's version.info",),
        date="",
    )
    yield fine
    yield replace(
        fine,
        others={firmware: outside},
        standing=PairStatus.BAD,
        symptom=_("outside the driver's range {low} to {high}", low=low, high=high),
        remedy="upgrade driver and firmware from one HDK release",
    )

"""The versions that a machine has, by component: told by tools, version files and package metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from envcheck.compat.components import components
from envcheck.compat.model import Confidence, Row, Standing
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.installed_versions import firmware_range, firmware_version, toolkit_version
from envcheck.core.key_value import driver_version


def installed(facts: Facts) -> dict[str, str]:
    """What is known of the machine and of the Python on its PATH; what is not told is left out."""
    found = {name: version for v in facts.vendors for name, version in _of_vendor(facts, v).items() if name}
    found["architecture"] = facts.host.architecture if facts.host else None
    if facts.packages:
        packages = facts.packages.packages
        found["python"] = facts.packages.python
        found |= {name: version for name, version in packages.items() if name in components()}
        found |= _by_maker(packages, {v.name for v in facts.vendors})
    return {name: version for name, version in found.items() if version}


def _of_vendor(facts: Facts, v: VendorFacts) -> dict[str, str | None]:
    """By component; "" where the vendor's record names none."""
    chip = next((device.name for device in v.devices if device.name), None)
    return {
        v.vendor.driver_component: driver_version(v),
        v.vendor.firmware_component: firmware_version(v),
        v.vendor.toolkit_component: toolkit_version(facts, v),
        v.vendor.chip_component: chip,
    }


def _by_maker(packages: Mapping[str, str], vendors: Collection[str]) -> dict[str, str]:
    """Packages of one name by their maker, which the version's label tells: torch 2.7.1+cu128, 2.7.1+corex.4.4.0."""
    found = {}
    for name, component in components().items():
        version = packages.get(component.package) if component.vendor in vendors else None
        label = (version or "").partition("+")[2]
        if version and any(label.startswith(start) if start else not label for start in component.labels):
            found[name] = version
    return found


def told(facts: Facts) -> Iterator[Row]:
    """What the machine's own files say of versions: the firmware that its driver takes."""
    for v in facts.vendors:
        yield from firmware_rows(v)


def firmware_rows(v: VendorFacts) -> Iterator[Row]:
    """compatible_version_fw of the driver's version.info as rows: within is tested, outside is known bad."""
    low, high = firmware_range(v)
    driver, firmware = driver_version(v), v.vendor.firmware_component
    if not (low and high and driver and firmware):
        return
    within, outside = (f">={low},<={high}",), (f"<{low}", f">{high}")
    fine = Row(
        of=v.vendor.driver_component,
        version=(driver,),
        others={firmware: within},
        standing=Standing.TESTED,
        confidence=Confidence.DOCUMENTED,
        source=("compatible_version_fw of the driver's version.info",),
        date="",
    )
    yield fine
    yield replace(
        fine,
        others={firmware: outside},
        standing=Standing.BAD,
        symptom=f"outside {low} to {high}, which the driver names",
        remedy="upgrade driver and firmware from one HDK release",
    )

"""The versions that a machine has, by component: told by tools, version files and package metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from envcheck.compat.model import COMPONENTS, Confidence, Row, Standing
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.installed_versions import firmware_range, firmware_version, toolkit_version
from envcheck.core.key_value import driver_version

Read = Callable[[Facts, VendorFacts], str | None]


def _driver(facts: Facts, v: VendorFacts) -> str | None:
    return driver_version(v)


def _firmware(facts: Facts, v: VendorFacts) -> str | None:
    return firmware_version(v)


def _chip(facts: Facts, v: VendorFacts) -> str | None:
    return next((device.name for device in v.devices if device.name), None)


# vendor -> component -> where it is told
TOLD: dict[str, dict[str, Read]] = {
    "npu": {"npu-driver": _driver, "npu-firmware": _firmware, "cann": toolkit_version, "chip": _chip},
    "iluvatar": {"corex-driver": _driver, "corex": toolkit_version},
    "nvidia": {"nvidia-driver": _driver},
}


def installed(facts: Facts) -> dict[str, str]:
    """What is known of the machine and of the Python on its PATH; what is not told is left out."""
    found = {name: read(facts, v) for v in facts.vendors for name, read in TOLD.get(v.name, {}).items()}
    found["architecture"] = facts.host.architecture if facts.host else None
    if facts.packages:
        found["python"] = facts.packages.python
        found |= {name: version for name, version in facts.packages.packages.items() if name in COMPONENTS}
        found |= _made_for(facts.packages.packages.get("torch", ""), {v.name for v in facts.vendors})
    return {name: version for name, version in found.items() if version}


def _made_for(torch: str, vendors: Collection[str]) -> dict[str, str]:
    """torch by its maker, which its version's label tells: 2.7.1+cu128, 2.7.1+corex.4.4.0; PyPI's is that with CUDA."""
    label = torch.partition("+")[2]
    if label.startswith("corex"):
        return {"torch-corex": torch}
    return {"torch-cuda": torch} if "nvidia" in vendors and (label.startswith("cu") or not label) else {}


def told(facts: Facts) -> Iterator[Row]:
    """What the machine's own files say of versions: the firmware that its driver takes."""
    for v in facts.vendors:
        yield from firmware_rows(v)


def firmware_rows(v: VendorFacts) -> Iterator[Row]:
    """compatible_version_fw of the driver's version.info as rows: within is tested, outside is known bad."""
    low, high = firmware_range(v)
    driver = driver_version(v)
    if not (low and high and driver):
        return
    within, outside = (f">={low},<={high}",), (f"<{low}", f">{high}")
    fine = Row(
        of="npu-driver",
        version=(driver,),
        others={"npu-firmware": within},
        standing=Standing.TESTED,
        confidence=Confidence.DOCUMENTED,
        source=("compatible_version_fw of the driver's version.info",),
        date="",
    )
    yield fine
    yield replace(
        fine,
        others={"npu-firmware": outside},
        standing=Standing.BAD,
        symptom=f"outside {low} to {high}, which the driver names",
        remedy="upgrade driver and firmware from one HDK release",
    )

"""What a machine's file must also obey: what the types cannot say."""

from __future__ import annotations

import re

from envcheck.core.errors import UsageError
from envcheck.core.simulate.machine import Devices, Links, Machine
from envcheck.simulate.vendor_simulations import load_simulations
from envcheck.vendors import VENDORS

CHIPS = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"\d[0-9A-Za-z._+-]{0,31}")
_BUS_ID = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_PCI_LINE = re.compile(r"([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) .+ \[[0-9a-f]{4}:[0-9a-f]{4}\].*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(machine: Machine, file: str) -> None:
    """UsageError for the first thing that cannot be."""
    for broken, sentence in _complaints(machine):
        if broken:
            raise UsageError(f"{file}: {sentence}", "compare with the machines that `envcheck simulate --list` names")
    if machine.vendor not in load_simulations():
        raise UsageError(
            f"{file}: envcheck has no simulated tools for vendor {machine.vendor}",
            f"add simulate.py to {VENDORS[machine.vendor].package}",
        )


def version(text: str) -> bool:
    """Whether it reads like a version; it becomes part of a path, so nothing else may stand in it."""
    return bool(_VERSION.fullmatch(text))


def _complaints(machine: Machine) -> list[tuple[bool, str]]:
    vendor = VENDORS.get(machine.vendor)
    found = [
        (not _NAME.fullmatch(machine.name), "the file's name must be letters, digits, dots and dashes"),
        (vendor is None, f"vendor must be one of {', '.join(VENDORS)}"),
        (not 1 <= machine.host.cpus <= 4096, "host: cpus must be 1 to 4096"),
        (not 1 <= machine.host.numa_nodes <= 64, "host: numa_nodes must be 1 to 64"),
        (not _NAME.fullmatch(machine.host.hostname), "host: hostname must be one word"),
        (not version(machine.python), "python must be a version"),
        (not all(map(_VARIABLE.fullmatch, machine.environment)), "environment: names are letters, digits and _"),
        (not all(map(_PCI_LINE.fullmatch, machine.pci)), "pci: lines as `lspci -nn` prints them are expected"),
    ]
    if vendor is None or not vendor.tool:
        return [*found, (machine.devices is not None, f"vendor {machine.vendor} has no devices")]
    if machine.driver is None or machine.devices is None or machine.links is None:
        return [*found, (True, f"vendor {machine.vendor} needs the tables driver, devices and links")]
    versions = (machine.driver.version, machine.driver.tool, machine.driver.toolkit or "0")
    return [
        *found,
        (not all(map(version, versions)), "driver: version, library and toolkit must be versions"),
        *_device_complaints(machine.devices),
        *_link_complaints(machine.links, len(machine.devices.bus_ids)),
        (
            sum(i.memory_mib for i in machine.mig) > machine.devices.memory_mib,
            "mig: the instances hold more memory than the device",
        ),
    ]


def _device_complaints(make: Devices) -> list[tuple[bool, str]]:
    count = len(make.bus_ids)
    return [
        (not 1 <= count <= CHIPS, f"devices: bus_ids: 1 to {CHIPS} are expected"),
        (not all(map(_BUS_ID.fullmatch, make.bus_ids)), "devices: bus_ids look like 0000:C1:00.0"),
        (len(set(make.bus_ids)) != count, "devices: bus_ids: each may stand only once"),
        (not 1 <= make.chips_per_card <= 8, "devices: chips_per_card must be 1 to 8"),
        (count % max(1, make.chips_per_card) != 0, "devices: chips_per_card must divide the number of bus_ids"),
        (not re.fullmatch(r"[0-9a-f]{4}", make.pci_id), "devices: pci_id must be four hex digits"),
        (not re.fullmatch(r".+ \[[0-9a-f]{4}\]", make.pci_class), "devices: pci_class ends in its number: [1200]"),
        (not 1 <= make.memory_mib < 1 << 24, "devices: memory_mib must be 1 to 16 million"),
        (make.idle_mib > make.memory_mib, "devices: idle_mib is more than memory_mib"),
        (make.temperature_c > 150 or make.power_w > 5000, "devices: no card is that hot or draws that much"),
    ]


def _link_complaints(links: Links, count: int) -> list[tuple[bool, str]]:
    members = [n for group in links.groups for n in group]
    words = (links.inside, links.between, links.same_card or "X", *links.nics)
    return [
        (bool(members) and sorted(members) != list(range(count)), "links: groups must name every device once"),
        (len(links.cpu_affinity) not in (0, count), "links: cpu_affinity needs one entry for each device"),
        (len(links.numa) not in (0, count), "links: numa needs one entry for each device"),
        (not all(re.fullmatch(r"[A-Za-z0-9_]{1,10}", w) for w in words), "links: a relation is one short word"),
        (
            not all(re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", a) for a in links.cpu_affinity),
            "links: cpu_affinity: 0-23",
        ),
        (len(links.nics) > CHIPS, f"links: at most {CHIPS} nics"),
    ]

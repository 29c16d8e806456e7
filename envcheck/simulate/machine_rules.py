"""Rules for machine files that types cannot express."""

from __future__ import annotations

import re

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join
from envcheck.core.simulate.machine import SimulatedDevices, SimulatedLinks, SimulatedSystem
from envcheck.simulate.vendor_simulations import load_simulations
from envcheck.vendors import VENDORS

CHIPS = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"\d[0-9A-Za-z._+-]{0,31}")
_BUS_ID = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_PCI_LINE = re.compile(r"([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) .+ \[[0-9a-f]{4}:[0-9a-f]{4}\].*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_machine(machine: SimulatedSystem, file: str) -> None:
    """UsageError for the first rule that the machine breaks."""
    for broken, sentence in _list_complaints(machine):
        if broken:
            raise UsageError(
                _("{file}: {sentence}", file=file, sentence=sentence),
                _("run `envcheck simulate --list` to see valid machines"),
            )
    if machine.vendor not in load_simulations():
        raise UsageError(
            _("{file}: envcheck has no simulated tools for vendor {vendor}", file=file, vendor=machine.vendor),
            _("add simulate.py to {package}", package=VENDORS[machine.vendor].package),
        )


def is_version(text: str) -> bool:
    """Return whether the text looks like a version; it becomes part of a path, so nothing else is allowed."""
    return bool(_VERSION.fullmatch(text))


def _list_complaints(machine: SimulatedSystem) -> list[tuple[bool, Message]]:
    vendor = VENDORS.get(machine.vendor)
    found = [
        (not _NAME.fullmatch(machine.name), _("the file name may contain only letters, digits, dots and dashes")),
        (vendor is None, _("vendor must be one of {vendors}", vendors=join(", ", VENDORS))),
        (not 1 <= machine.host.cpus <= 4096, _("host: cpus must be 1 to 4096")),
        (not 1 <= machine.host.numa_nodes <= 64, _("host: numa_nodes must be 1 to 64")),
        (not _NAME.fullmatch(machine.host.hostname), _("host: hostname must be one word")),
        (not is_version(machine.python), _("python must be a version")),
        (not all(map(_VARIABLE.fullmatch, machine.environment)), _("environment: names are letters, digits and _")),
        (not all(map(_PCI_LINE.fullmatch, machine.pci)), _("pci: expected lines as printed by `lspci -nn`")),
    ]
    if vendor is None or not vendor.tool:
        return [*found, (machine.devices is not None, _("vendor {vendor} has no devices", vendor=machine.vendor))]
    if machine.driver is None or machine.devices is None or machine.links is None:
        return [*found, (True, _("vendor {vendor} needs the tables driver, devices and links", vendor=machine.vendor))]
    versions = (machine.driver.version, machine.driver.tool_version, machine.driver.toolkit or "0")
    return [
        *found,
        (not all(map(is_version, versions)), _("driver: version, library and toolkit must be versions")),
        *_list_device_complaints(machine.devices),
        *_list_link_complaints(machine.links, len(machine.devices.bus_ids)),
        (
            sum(i.memory_mib for i in machine.mig) > machine.devices.memory_mib,
            _("mig: the instances have more memory than the device"),
        ),
    ]


def _list_device_complaints(make: SimulatedDevices) -> list[tuple[bool, Message]]:
    count = len(make.bus_ids)
    return [
        (not 1 <= count <= CHIPS, _("devices: bus_ids: expected 1 to {most}", most=CHIPS)),
        (not all(map(_BUS_ID.fullmatch, make.bus_ids)), _("devices: bus_ids must look like 0000:C1:00.0")),
        (len(set(make.bus_ids)) != count, _("devices: bus_ids must be unique")),
        (not 1 <= make.chips_per_card <= 8, _("devices: chips_per_card must be 1 to 8")),
        (count % max(1, make.chips_per_card) != 0, _("devices: chips_per_card must divide the number of bus_ids")),
        (not re.fullmatch(r"[0-9a-f]{4}", make.pci_id), _("devices: pci_id must be four hex digits")),
        (
            not re.fullmatch(r".+ \[[0-9a-f]{4}\]", make.pci_class),
            _("devices: pci_class must end with its number: [1200]"),
        ),
        (not 1 <= make.memory_mib < 1 << 24, _("devices: memory_mib must be 1 to 16 million")),
        (make.idle_mib > make.memory_mib, _("devices: idle_mib exceeds memory_mib")),
        (make.temperature_c > 150 or make.power_w > 5000, _("devices: temperature or power is out of range")),
    ]


def _list_link_complaints(links: SimulatedLinks, count: int) -> list[tuple[bool, Message]]:
    members = [n for group in links.groups for n in group]
    words = (links.inside, links.between, links.same_card or "X", *links.nics)
    return [
        (
            bool(members) and sorted(members) != list(range(count)),
            _("links: groups must list every device exactly once"),
        ),
        (len(links.cpu_affinity) not in (0, count), _("links: cpu_affinity needs one entry for each device")),
        (len(links.numa) not in (0, count), _("links: numa needs one entry for each device")),
        (not all(re.fullmatch(r"[A-Za-z0-9_]{1,10}", w) for w in words), _("links: a relation must be one short word")),
        (
            not all(re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", a) for a in links.cpu_affinity),
            _("links: cpu_affinity must look like 0-23"),
        ),
        (len(links.nics) > CHIPS, _("links: at most {most} nics", most=CHIPS)),
    ]

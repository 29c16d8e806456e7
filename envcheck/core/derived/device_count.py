"""How many devices of a vendor the bus, /dev and the vendor's tool show."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import in_container


@dataclass(frozen=True)
class DeviceCount:
    """None where nothing says it; `slots` counts two chips of one card, which share a bus address, once."""

    tool: str
    pci: int | None
    nodes: int | None
    listed: int
    slots: int

    @property
    def some_missing(self) -> bool:
        """Whether the tool lists fewer than the bus or /dev."""
        expected = max(self.pci or 0, self.nodes or 0)
        return max(self.listed, self.slots) < expected

    def __str__(self) -> str:
        return f"lspci {_number(self.pci)}, /dev {_number(self.nodes)}, {self.tool} {self.listed}"


def count_devices(facts: Facts, v: VendorFacts) -> DeviceCount:
    """In a container lspci shows the host's devices, so that the nodes alone count there."""
    listed, nodes = len(v.devices), None if v.nodes is None else len(v.nodes)
    slots = len({d.bus_id for d in v.devices if d.bus_id}) or listed
    pci = None if v.pci is None or (in_container(facts) and nodes) else len(v.pci)
    return DeviceCount(v.vendor.tool, pci, nodes, listed, slots)


def _number(value: int | None) -> str:
    return "not told" if value is None else str(value)

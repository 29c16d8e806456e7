"""The number of a vendor's devices on the bus, in /dev and in the vendor's tool."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import is_in_container
from envcheck.core.messages import Message, _, verbatim


@dataclass(frozen=True)
class DeviceCount:
    """The counts, None if unknown; `slots` counts two chips of one card, which share a bus address, only once."""

    tool: str
    pci: int | None
    nodes: int | None
    listed: int
    slots: int

    @property
    def is_some_missing(self) -> bool:
        """Whether the tool lists fewer devices than the bus or /dev."""
        expected = max(self.pci or 0, self.nodes or 0)
        return max(self.listed, self.slots) < expected

    @property
    def message(self) -> Message:
        """The counts as one line."""
        return _(
            "lspci {pci}, /dev {nodes}, {tool} {listed}",
            pci=_format_count(self.pci),
            nodes=_format_count(self.nodes),
            tool=self.tool,
            listed=self.listed,
        )


def count_devices(facts: Facts, v: VendorFacts) -> DeviceCount:
    """Return the counts. In a container, lspci shows the host's devices, so only the device nodes are compared."""
    listed, nodes = len(v.devices), None if v.nodes is None else len(v.nodes)
    slots = len({d.bus_id for d in v.devices if d.bus_id}) or listed
    pci = None if v.pci is None or (is_in_container(facts) and nodes) else len(v.pci)
    return DeviceCount(v.vendor.tool, pci, nodes, listed, slots)


def _format_count(value: int | None) -> Message:
    return _("unknown") if value is None else verbatim(str(value))

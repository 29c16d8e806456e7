"""PCIe between the cards: what sends their talk up to the root of the bus, or translates it there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import figures, in_container, not_told, ok, plural, skip, unknown, warn
from envcheck.core.model import Finding
from probes.host import network_schemas
from probes.host.network_schemas import Slot

PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")  # the tools' legend: over the bus, and what lies between
Slots = dict[str, Slot]


def iommu(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The IOMMU lets cards that talk over PCIe through untranslated: what they send goes astray, or waits for ever."""
    if reason := _not_over_pcie(v):
        yield skip(reason)
    elif (slots := _slots(facts, v)) is None:
        yield not_told(facts, "ask bus")
    elif translated := {address: slot.iommu for address, slot in slots.items() if (slot.iommu or "").startswith("DMA")}:
        first = next(iter(translated))
        words = (
            "Start the kernel with iommu=pt, unless this is a virtual machine: there, ask its host. "
            "NCCL_P2P_DISABLE=1 goes around it, slowly."
        )
        fix = "sudo grubby --update-kernel=ALL --args=iommu=pt"
        shown = figures(f"/sys/bus/pci/devices/{first}/iommu_group/type", type=translated[first])
        yield warn(f"the IOMMU translates for {plural(len(translated), 'card')}", words, fix, evidence=shown)
    elif all(slot.iommu == "none" for slot in slots.values()):
        yield ok("no IOMMU stands between the cards")
    elif all(slot.iommu for slot in slots.values()):
        yield ok("the IOMMU lets the cards through as they are")
    else:
        yield unknown("the kernel does not tell what its IOMMU does", "Look for iommu= there.", "cat /proc/cmdline")


def acs(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The PCIe switches between the cards pass their talk on: with ACS they send it up to the root and back."""
    if reason := _not_over_pcie(v):
        yield skip(reason)
        return
    slots = _slots(facts, v)
    if slots is None:
        yield not_told(facts, "ask bus")
        return
    ports = {port: on for slot in slots.values() for port, on in slot.switches.items()}
    redirecting = sorted(port for port, on in ports.items() if on)
    if not ports:
        yield ok("no PCIe switch stands between the cards")
    elif redirecting:
        words = "Turn it off in the BIOS, or by setpci for each, unless cards are passed to virtual machines."
        fix = f"sudo setpci -s {redirecting[0]} ECAP_ACS+0x6.w=0000"
        shown = figures(f"configuration space of {redirecting[0]}", ACSCtl="request or completion redirect")
        seen = f"{plural(len(redirecting), 'port')} of PCIe switches redirect what cards send each other (ACS)"
        yield warn(seen, words, fix, evidence=shown)
    elif any(on is None for on in ports.values()):
        if in_container(facts):
            yield skip("a container may not read what the PCIe switches do")
        else:
            words, look = "Look as root.", "sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'"
            yield unknown("root alone may read what the PCIe switches do", words, look)
    else:
        yield ok(f"{plural(len(ports), 'port')} of PCIe switches pass on what cards send each other")


def _not_over_pcie(v: VendorFacts) -> str:
    """Why it does not matter; "" where some pair talks over the bus, or nobody knows."""
    if len(v.devices) < 2:
        return "one device"
    names = v.topology.names if v.topology else ()
    pairs = [(v.topology.matrix.get(a) or {}).get(b) for a in names for b in names if a != b] if v.topology else []
    return "the cards have links of their own" if pairs and not any(p in PCIE or not p for p in pairs) else ""


def _slots(facts: Facts, v: VendorFacts) -> Slots | None:
    """Of this vendor's cards, by what the kernel calls them: 0000:19:00.0."""
    told = network_schemas.bus(facts)
    mine = {_short(d.bus_id) for d in v.devices if d.bus_id}
    found = {address: slot for address, slot in (told or {}).items() if _short(address) in mine}
    return found or None


def _short(bus_id: str) -> str:
    return re.sub(r"^0+(?=[0-9a-f]{4}:)", "", bus_id.lower())


CHECKS: tuple[Check, ...] = (
    of_devices(
        "host.iommu",
        iommu,
        reads="type of the cards' IOMMU groups, topology",
        source="NVIDIA/nccl#257, NVIDIA/nccl#304; NCCL's page on troubleshooting",
        rule="WARN when the kernel translates for a card and some pair of cards talks over PCIe",
        fix="iommu=pt on the kernel's command line.",
    ),
    of_devices(
        "host.acs",
        acs,
        reads="ACS of the PCIe switches above the cards, topology",
        source="NVIDIA/nccl#2079; NCCL's page on troubleshooting",
        rule="WARN when a port redirects and some pair of cards talks over PCIe; UNKNOWN for a plain user",
        fix="BIOS, or setpci.",
    ),
)

"""Checks of PCIe between devices: address translation (IOMMU) and detours over the root port (ACS)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import is_in_container, ok, quote_values, report_unanswered, skip, unknown, warn
from envcheck.core.messages import NOTHING, Message, _, mark, ngettext
from envcheck.core.model import Finding, diagnose, fix
from probes.host import network_schemas
from probes.host.network_schemas import PcieSlot

PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")  # relations over PCIe, in the legend of the tools
Slots = dict[str, PcieSlot]


def check_iommu(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The IOMMU does not translate between devices that communicate over PCIe; with translation, transfers hang or
    corrupt data."""
    if reason := _explain_unused_pcie(v):
        yield skip(reason)
    elif (slots := _read_device_slots(facts, v)) is None:
        yield report_unanswered(facts, "ask bus")
    elif translated := {address: slot.iommu for address, slot in slots.items() if (slot.iommu or "").startswith("DMA")}:
        first = next(iter(translated))
        words = (
            _(
                "Boot the kernel with iommu=pt. In a virtual machine, configure the hypervisor instead. "
                "{setting} is a slower workaround.",
                setting=v.vendor.peer_setting,
            )
            if v.vendor.peer_setting
            else _("Boot the kernel with iommu=pt. In a virtual machine, configure the hypervisor instead.")
        )
        commands = "sudo grubby --update-kernel=ALL --args=iommu=pt"
        shown = quote_values(f"/sys/bus/pci/devices/{first}/iommu_group/type", type=translated[first])
        yield warn(
            _(
                "the IOMMU translates addresses for {translated_count}",
                translated_count=ngettext("{count} card", "{count} cards", len(translated)),
            ),
            fix(words, commands),
            evidence=shown,
        )
    elif all(slot.iommu == "none" for slot in slots.values()):
        yield ok(_("no IOMMU between the cards"))
    elif all(slot.iommu for slot in slots.values()):
        yield ok(_("the IOMMU is in pass-through mode"))
    else:
        yield unknown(
            _("the kernel does not report its IOMMU mode"),
            diagnose(_("Check the kernel command line for iommu=."), "cat /proc/cmdline"),
        )


def check_acs(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """ACS is off on the PCIe switches between devices; with ACS, transfers take the detour over the root port."""
    if reason := _explain_unused_pcie(v):
        yield skip(reason)
        return
    slots = _read_device_slots(facts, v)
    if slots is None:
        yield report_unanswered(facts, "ask bus")
        return
    ports = {port: on for slot in slots.values() for port, on in slot.switches.items()}
    redirecting = sorted(port for port, on in ports.items() if on)
    if not ports:
        yield ok(_("no PCIe switch between the cards"))
    elif redirecting:
        words = _(
            "Turn ACS off in the BIOS, or with setpci on each port, unless cards are passed "
            "through to virtual machines."
        )
        commands = f"sudo setpci -s {redirecting[0]} ECAP_ACS+0x6.w=0000"
        shown = quote_values(f"configuration space of {redirecting[0]}", ACSCtl="request or completion redirect")
        seen = _(
            "{redirecting_count} of PCIe switches redirect peer-to-peer traffic (ACS)",
            redirecting_count=ngettext("{count} port", "{count} ports", len(redirecting)),
        )
        yield warn(seen, fix(words, commands), evidence=shown)
    elif any(on is None for on in ports.values()):
        if is_in_container(facts):
            yield skip(_("a container cannot read the ACS settings of the PCIe switches"))
        else:
            words, look = _("Run the command as root."), "sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'"
            yield unknown(_("only root can read the ACS settings of the PCIe switches"), diagnose(words, look))
    else:
        yield ok(
            _(
                "{ports_count} of PCIe switches forward peer-to-peer traffic directly",
                ports_count=ngettext("{count} port", "{count} ports", len(ports)),
            )
        )


def _explain_unused_pcie(v: VendorFacts) -> Message:
    """Why PCIe does not matter here; empty if some pair communicates over PCIe, or that is unknown."""
    if len(v.devices) < 2:
        return _("one device")
    names = v.topology.names if v.topology else ()
    pairs = [(v.topology.matrix.get(a) or {}).get(b) for a in names for b in names if a != b] if v.topology else []
    return _("the cards have direct links") if pairs and not any(p in PCIE or not p for p in pairs) else NOTHING


def _read_device_slots(facts: Facts, v: VendorFacts) -> Slots | None:
    """The PCI addresses of this vendor's devices, as the kernel writes them: 0000:19:00.0."""
    told = network_schemas.read_bus(facts)
    mine = {_strip_pci_domain(d.bus_id) for d in v.devices if d.bus_id}
    found = {address: slot for address, slot in (told or {}).items() if _strip_pci_domain(address) in mine}
    return found or None


def _strip_pci_domain(bus_id: str) -> str:
    return re.sub(r"^0+(?=[0-9a-f]{4}:)", "", bus_id.lower())


CHECKS: tuple[Check, ...] = (
    device_check(
        "host.iommu",
        check_iommu,
        reads="type of the devices' IOMMU groups, topology",
        source=mark("NVIDIA/nccl#257, NVIDIA/nccl#304; NCCL troubleshooting page"),
        rule="WARN if the kernel translates for a device and any pair of devices communicates over PCIe",
        fix="Add iommu=pt to the kernel command line.",
    ),
    device_check(
        "host.acs",
        check_acs,
        reads="ACS of the PCIe switches above the devices, topology",
        source=mark("NVIDIA/nccl#2079; NCCL troubleshooting page"),
        rule="WARN if a port redirects and any pair of devices communicates over PCIe; UNKNOWN without root",
        fix="Turn ACS off in the BIOS or with setpci.",
    ),
)

"""Simulated lspci -nn, with or without -d VENDOR, in bus order; a lost card is still listed."""

from __future__ import annotations

import re

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.vendors import VENDORS


def make_program(machine: SimulatedSystem) -> SimulatedProgram:
    """Return the lspci executable."""
    lines = sorted([*machine.pci, *(_format_line(chip, machine.devices, machine.vendor) for chip in machine.chips)])
    replies = {"-nn": _make_reply(lines), "": _make_reply([_drop_numbers(line) for line in lines])}
    for vendor in (number for v in VENDORS.values() for number in v.pci_vendors):
        own = [line for line in lines if f"[{vendor}:" in line]
        replies |= {
            f"-nn -d {vendor}:": _make_reply(own),
            f"-d {vendor}:": _make_reply([_drop_numbers(line) for line in own]),
        }
    usage = ProgramReply(err="lspci: this simulated one knows -nn and -d VENDOR:\n", status=1)
    return SimulatedProgram("lspci", replies, (("-nn -d ", ProgramReply()), ("-d ", ProgramReply()), ("", usage)))


def _make_reply(lines: list[str]) -> ProgramReply:
    return ProgramReply("".join(f"{line}\n" for line in lines))


def _format_line(chip: SimulatedChip, make: SimulatedDevices | None, vendor: str) -> str:
    """Return a line such as 28:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device d802
    [19e5:d802] (rev 20)
    """
    assert make is not None
    domain, _unused, rest = chip.bus_id.lower().partition(":")
    place = rest if int(domain, 16) == 0 else f"{domain[-4:]}:{rest}"
    numbers = f"[{make.pci_vendor or VENDORS[vendor].pci_vendor}:{make.pci_id}]"
    return f"{place} {make.pci_class}: {make.pci_name} {numbers} (rev {make.pci_revision})"


def _drop_numbers(line: str) -> str:
    return re.sub(r" \[[0-9a-f]{4}(:[0-9a-f]{4})?\]", "", line)

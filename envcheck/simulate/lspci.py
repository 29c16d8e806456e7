"""lspci -nn, with or without -d VENDOR: lines in the order of the bus; a lost card is still on it."""

from __future__ import annotations

import re

from envcheck.core.simulate.machine import Chip, Devices, Machine
from envcheck.core.simulate.reply import Program, Reply
from envcheck.vendors import VENDORS


def program(machine: Machine) -> Program:
    lines = sorted([*machine.pci, *(_line(chip, machine.devices, machine.vendor) for chip in machine.chips)])
    replies = {"-nn": _said(lines), "": _said([_without_numbers(line) for line in lines])}
    for vendor in filter(None, (v.pci_vendor for v in VENDORS.values())):
        own = [line for line in lines if f"[{vendor}:" in line]
        replies |= {f"-nn -d {vendor}:": _said(own), f"-d {vendor}:": _said([_without_numbers(line) for line in own])}
    usage = Reply(err="lspci: this simulated one knows -nn and -d VENDOR:\n", status=1)
    return Program("lspci", replies, (("-nn -d ", Reply()), ("-d ", Reply()), ("", usage)))


def _said(lines: list[str]) -> Reply:
    return Reply("".join(f"{line}\n" for line in lines))


def _line(chip: Chip, make: Devices | None, vendor: str) -> str:
    """28:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device d802 [19e5:d802] (rev 20)"""
    assert make is not None
    domain, _, rest = chip.bus_id.lower().partition(":")
    place = rest if int(domain, 16) == 0 else f"{domain[-4:]}:{rest}"
    numbers = f"[{VENDORS[vendor].pci_vendor}:{make.pci_id}]"
    return f"{place} {make.pci_class}: {make.pci_name} {numbers} (rev {make.pci_revision})"


def _without_numbers(line: str) -> str:
    return re.sub(r" \[[0-9a-f]{4}(:[0-9a-f]{4})?\]", "", line)

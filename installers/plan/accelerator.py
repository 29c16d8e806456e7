"""The machine itself, as far as provisioning asks: its processor, whose cards are in it, and which driver runs them."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from envcheck.collect import facts, machine
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.key_value import driver_version
from envcheck.core.model import Question
from envcheck.vendors import VENDORS
from probes.host import decode

_HOST = Question("ask", ("host",), 10.0)


@dataclass(frozen=True)
class Accelerators:
    """`architecture` is uname's word; `driver` None where nobody could tell.

    `sizes_mib` has an entry for each device that the vendor's tool lists, None for a memory that is not told, and is
    None itself where the list is not to be had whole.  `others` are the vendors whose cards are here, where none of the
    wanted one's is, `facts` all that was seen, `doubts` what else a person should know of them.
    """

    architecture: str
    driver: str | None = None
    sizes_mib: tuple[int | None, ...] | None = None
    others: tuple[str, ...] = ()
    facts: Facts | None = None
    doubts: tuple[str, ...] = ()


def look(device: str) -> Accelerators:
    """Of this machine, or of the simulated one that stands in its place."""
    if device == "cpu":
        return Accelerators(architecture_here())
    known = facts.gather(machine.here(), device)
    architecture = (known.host.architecture if known.host else None) or platform.machine()
    mine = next((v for v in known.vendors if v.name == device), None)
    sizes = tuple(d.memory_total_mib for d in mine.devices) if mine and _is_whole(known, device) else None
    others = tuple(name for name in _vendors_here() if name != device) if not (mine and mine.devices) else ()
    return Accelerators(architecture, driver_version(mine) if mine else None, sizes, others, known)


def architecture_here() -> str:
    """As `uname -m` has it."""
    answer = machine.here()(_HOST)
    try:
        told = decode.host(json.loads(answer.out)) if answer.ok else None
    except (ValueError, RecursionError):
        told = None
    return (told.architecture if told else None) or platform.machine()


def device_here() -> str:
    """The one vendor whose cards are in this machine; cpu where there is none."""
    found = _vendors_here()
    if len(found) > 1:
        raise UsageError(f"this machine has cards of {' and '.join(found)}", f"say --device {found[0]} or another")
    return found[0] if found else "cpu"


def _vendors_here() -> list[str]:
    vendors = [vendor for vendor in VENDORS.values() if vendor.pci_vendor]
    answers = machine.ask_all(machine.here(), [q for vendor in vendors for q in vendor.presence])
    return [vendor.name for vendor in vendors if facts.present(vendor, answers)]


def _is_whole(known: Facts, device: str) -> bool:
    """The tool has listed devices, and was not cut off while it did."""
    mine = next(v for v in known.vendors if v.name == device)
    return bool(mine.devices and mine.document and not mine.document.truncated)

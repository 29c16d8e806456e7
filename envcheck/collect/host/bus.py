"""PCIe settings that affect transfers between cards: the IOMMU, and switches that redirect peer requests (ACS).

bus  {cards: {bus id: {iommu, switches: {bus id: true | false | null}}}, strange: {bus id: vendor:device}}
     iommu is the type of the card's IOMMU group (identity, DMA, DMA-FQ), none without an IOMMU, null if the kernel
     is too old to show it; switches are the ports between the card and the root port: whether one redirects peer
     requests (ACS), null if only root may read that part of the configuration space.  `strange` are accelerators
     of vendors without a record.
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

DEVICES = Path("/sys/bus/pci/devices")
CARDS_LIMIT, DEPTH_LIMIT = 256, 16
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Processing accelerators, 3D controllers, co-processors (pci.ids); Intel's are for compression and encryption.
ACCELERATORS, INTEL = ("12", "0302", "0b40"), "0x8086"
EXTENDED, ACS = 0x100, 0x000D  # PCI Express Base Specification: offset of the extended capabilities; id of ACS
CONTROL, REDIRECTS = 6, 0x04 | 0x08  # offset of the control register; P2P request redirect, completion redirect


def collect_bus(vendors: "Iterable[Any]") -> "dict[str, Any]":
    """Return the facts above from /sys/bus/pci/devices."""
    kinds = {f"0x{number}": vendor.pci_classes for vendor in vendors for number in vendor.pci_vendors}
    try:
        paths = sorted(DEVICES.iterdir())
    except OSError:
        paths = []
    cards = [path for path in paths if _is_card(path, kinds)][:CARDS_LIMIT]
    strange = [path for path in paths if _is_unknown_accelerator(path, kinds)][:CARDS_LIMIT]
    return {
        "cards": {path.name: _read_card(path) for path in cards},
        "strange": {path.name: f"{_read_hex(path / 'vendor')}:{_read_hex(path / 'device')}" for path in strange},
    }


def _is_card(path: "Path", kinds: "Mapping[str, Sequence[str]]") -> bool:
    classes = kinds.get(_read_text(path / "vendor"))
    return classes is not None and _read_hex(path / "class").startswith(tuple(classes))


def _is_unknown_accelerator(path: "Path", kinds: "Mapping[str, Sequence[str]]") -> bool:
    return _read_hex(path / "class").startswith(ACCELERATORS) and _read_text(path / "vendor") not in (*kinds, INTEL)


def _read_card(path: "Path") -> "dict[str, Any]":
    above = [part for part in path.resolve().parts[:-1] if ADDRESS.fullmatch(part)][1:DEPTH_LIMIT]
    switches = {port: is_redirecting(_read_bytes(DEVICES / port / "config")) for port in above}
    grouped = (path / "iommu_group").is_dir()
    return {"iommu": (_read_text(path / "iommu_group/type") or None) if grouped else "none", "switches": switches}


def is_redirecting(space: bytes) -> "bool | None":
    """Return whether ACS redirection is on in a port's configuration space; False without ACS, None if it is
    truncated."""
    if len(space) < EXTENDED + 4:
        return None
    at, steps = EXTENDED, 0
    while EXTENDED <= at <= len(space) - 8 and steps < 64:
        (head,) = struct.unpack_from("<I", space, at)
        if head & 0xFFFF == ACS:
            return bool(struct.unpack_from("<H", space, at + CONTROL)[0] & REDIRECTS)
        at, steps = head >> 20, steps + 1
    return False


def _read_hex(path: "Path") -> str:
    """Return 030200 for 0x030200."""
    return _read_text(path).partition("0x")[2]


def _read_text(path: "Path") -> str:
    return _read_bytes(path)[:64].decode("ascii", "replace").strip()


def _read_bytes(path: "Path") -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError:
        return b""

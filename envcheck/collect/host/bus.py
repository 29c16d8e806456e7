"""What stands between cards that talk over PCIe: the IOMMU, and switches that send peers' requests up to the root.

bus  {cards: {bus id: {iommu, switches: {bus id: true | false | null}}}, strange: {bus id: vendor:device}}
     iommu is the kernel's word for the card's group (identity, DMA, DMA-FQ), none without an IOMMU, null where an old
     kernel does not tell; switches are the ports above the card, below the root port: whether one redirects requests
     of a peer (ACS).  null: root alone may read that much of the configuration space.  `strange` are accelerators of
     vendors of whom there is no record.
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
EXTENDED, ACS = 0x100, 0x000D  # PCI Express base specification: where extended capabilities begin; ACS's id
CONTROL, REDIRECTS = 6, 0x04 | 0x08  # the control register's place; P2P request redirect, completion redirect


def bus(vendors: "Iterable[Any]") -> "dict[str, Any]":
    kinds = {f"0x{vendor.pci_vendor}": vendor.pci_classes for vendor in vendors if vendor.pci_vendor}
    try:
        paths = sorted(DEVICES.iterdir())
    except OSError:
        paths = []
    cards = [path for path in paths if _is_card(path, kinds)][:CARDS_LIMIT]
    strange = [path for path in paths if _is_strange(path, kinds)][:CARDS_LIMIT]
    return {
        "cards": {path.name: _card(path) for path in cards},
        "strange": {path.name: f"{_hex(path / 'vendor')}:{_hex(path / 'device')}" for path in strange},
    }


def _is_card(path: "Path", kinds: "Mapping[str, Sequence[str]]") -> bool:
    classes = kinds.get(_text(path / "vendor"))
    return classes is not None and _hex(path / "class").startswith(tuple(classes))


def _is_strange(path: "Path", kinds: "Mapping[str, Sequence[str]]") -> bool:
    return _hex(path / "class").startswith(ACCELERATORS) and _text(path / "vendor") not in (*kinds, INTEL)


def _card(path: "Path") -> "dict[str, Any]":
    above = [part for part in path.resolve().parts[:-1] if ADDRESS.fullmatch(part)][1:DEPTH_LIMIT]
    switches = {port: redirects(_bytes(DEVICES / port / "config")) for port in above}
    grouped = (path / "iommu_group").is_dir()
    return {"iommu": (_text(path / "iommu_group/type") or None) if grouped else "none", "switches": switches}


def redirects(space: bytes) -> "bool | None":
    """Whether ACS is on in a port's configuration space; False without such a capability, None where it is cut off."""
    if len(space) < EXTENDED + 4:
        return None
    at, steps = EXTENDED, 0
    while EXTENDED <= at <= len(space) - 8 and steps < 64:
        (head,) = struct.unpack_from("<I", space, at)
        if head & 0xFFFF == ACS:
            return bool(struct.unpack_from("<H", space, at + CONTROL)[0] & REDIRECTS)
        at, steps = head >> 20, steps + 1
    return False


def _hex(path: "Path") -> str:
    """0x030200 → 030200."""
    return _text(path).partition("0x")[2]


def _text(path: "Path") -> str:
    return _bytes(path)[:64].decode("ascii", "replace").strip()


def _bytes(path: "Path") -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError:
        return b""

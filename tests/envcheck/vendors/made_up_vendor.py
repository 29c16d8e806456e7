"""A made-up vendor: a distribution with the documented minimum, and a machine with its cards."""

from __future__ import annotations

from pathlib import Path

RECORD = '''"""Tyche cards, which nobody makes."""

from envcheck.core.vendor import Vendor, run_question

VENDOR = Vendor(
    name="tyche",
    package=__name__,
    title="Tyche",
    tool="tyche-smi",
    parser="tyche_cards.parser",
    pci_vendor="7a7a",
    node_pattern="/dev/tyche[0-9]*",
    devices=(run_question("tyche-smi"),),
)
'''
PARSER = '''"""0, Tyche T1, 0000:3b:00.0, 12 MiB, 65536 MiB"""

import re

from envcheck.core.model import Device, Document

ROW = re.compile(r"^(\\d+), ([^,]+), ([0-9a-f:.]+), (\\d+) MiB, (\\d+) MiB$", re.MULTILINE)


def parse(text: str) -> Document:
    """Each line that is a device."""
    devices = tuple(
        Device(index=int(n), name=name, bus_id=bus, memory_used_mib=int(used), memory_total_mib=int(total))
        for n, name, bus, used, total in ROW.findall(text)
    )
    return Document("tyche-smi", "devices" if devices else "unknown", devices=devices)
'''
LISTED = "0, Tyche T1, 0000:3b:00.0, 12 MiB, 65536 MiB\n1, Tyche T1, 0000:5e:00.0, 12 MiB, 65536 MiB"
ON_THE_BUS = """3b:00.0 Processing accelerators [1200]: Tyche T1 [7a7a:0001]
5e:00.0 Processing accelerators [1200]: Tyche T1 [7a7a:0001]"""


def install_vendor(folder: Path, record: str = RECORD, value: str = "tyche_cards") -> Path:
    """A folder for PYTHONPATH that contains the distribution."""
    package, info = folder / "tyche_cards", folder / "tyche_cards-1.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(record)
    (package / "parser.py").write_text(PARSER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tyche-cards\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[envcheck.vendors]\ntyche = {value}\n")
    return folder


def put_cards(sysroot: Path) -> None:
    """Two cards in a simulated machine: on the bus, as device nodes, and in the vendor's tool."""
    for name, script in {
        "tyche-smi": f"cat <<'END'\n{LISTED}\nEND\n",
        "lspci": f"[ \"$3\" = 7a7a: ] || exit 0\ncat <<'END'\n{ON_THE_BUS}\nEND\n",
    }.items():
        program = sysroot / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)
    nodes = sysroot / "root" / "dev"
    nodes.mkdir(parents=True, exist_ok=True)
    for n in range(2):
        (nodes / f"tyche{n}").touch()

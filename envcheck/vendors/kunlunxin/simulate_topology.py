"""`topo -m` of xpu-smi, in the layout of a published test input: no output of a real machine is public."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.topology import find_nic_relation, find_relation


def format_matrix(machine: SimulatedSystem) -> str:
    """Return the matrix, with columns but without rows for network cards.

            XPU0 XPU1 NIC0 CPU Affinity NUMA Affinity
    XPU0    X    XL   PIX  0-51,104-155 0
    """
    links, chips = machine.links, machine.listed_chips
    assert links is not None
    nics = [f"NIC{n}" for n in range(len(links.nics))]
    heads = [*(f"XPU{n}" for n in range(len(chips))), *nics]
    width = max(map(len, heads)) + 1
    lines = [_format_row("", heads, width, "CPU Affinity NUMA Affinity" if links.cpu_affinity else "")]
    for n, chip in enumerate(chips):
        cells = [
            *(find_relation(machine, chip, other) for other in chips),
            *(find_nic_relation(links, chip.index, nic) for nic in range(len(nics))),
        ]
        place = f"{links.cpu_affinity[chip.index]} {links.numa[chip.index]}" if links.cpu_affinity else ""
        lines.append(_format_row(f"XPU{n}", cells, width, place))
    lines += ["", "Legend:", "  X = Self"]
    if nics:
        lines += ["", "NIC Legend:", *(f"  {nic}: {name}" for nic, name in zip(nics, links.nics, strict=True))]
    return "\n".join(["", *lines, ""])


def _format_row(label: str, cells: list[str], width: int, place: str) -> str:
    return f"{label:<8}{''.join(f'{cell:<{width}}' for cell in cells)}{place}".rstrip()

"""The matrix of `npu-smi info -t topo`."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.topology import find_relation

_LEGEND = """
Legend:

  X    = Self
  SYS  = Path traversing PCIe and NUMA nodes
  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU
  PIX  = Path traversing a single PCIe switch
  HCCS = Connection traversing HCCS
  SIO  = Path traversing the SIO bus
  HCCS_SW = Connection traversing HCCS through a switch
  NA   = Unknown relationship
"""


def format_matrix(machine: SimulatedSystem) -> str:
    """Return the matrix with columns of eleven characters; A3 uses Phy-IDs and prints no affinity column."""
    assert machine.links is not None and machine.devices is not None
    word, affinity = "Phy-ID" if machine.devices.phy_ids else "NPU", machine.links.cpu_affinity
    numbers = [chip.index if machine.devices.phy_ids else chip.card for chip in machine.listed_chips]
    rows = [["", *(f"{word}{n}" for n in numbers), *(["CPU Affinity"] if affinity else [])]]
    for number, chip in zip(numbers, machine.listed_chips, strict=True):
        cells = [find_relation(machine, chip, other) for other in machine.listed_chips]
        rows.append([f"{word}{number}", *cells, *([affinity[chip.index]] if affinity else [])])
    return "".join("".join(f"{cell:<11}" for cell in row).rstrip() + "\n" for row in rows) + _LEGEND

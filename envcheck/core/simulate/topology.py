"""Who is linked to whom, and the two ways in which the tools print it."""

from __future__ import annotations

from envcheck.core.simulate.machine import Chip, Links, Machine

_NPU_LEGEND = """
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
_GPU_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe and the interconnect between NUMA nodes
  NODE = Connection traversing PCIe and the host bridges within a NUMA node
  PHB  = Connection traversing PCIe and a PCIe host bridge
  PXB  = Connection traversing several PCIe bridges
  PIX  = Connection traversing at most one PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def relation(machine: Machine, one: Chip, other: Chip) -> str:
    """The word for a pair; a lost link leaves the long way over the host."""
    links = machine.links
    assert links is not None
    if one.index == other.index:
        return "X"
    if one.index in links.lost or other.index in links.lost:
        return "SYS"
    if links.same_card and one.card == other.card:
        return links.same_card
    return links.inside if _group(links, one) == _group(links, other) else links.between


def _group(links: Links, chip: Chip) -> int:
    return next((n for n, group in enumerate(links.groups) if chip.index in group), 0)


def npu_matrix(machine: Machine) -> str:
    """Columns of eleven; the newest cards are named by Phy-ID and get no affinity column (as an A3 printed it)."""
    assert machine.links is not None and machine.devices is not None
    word, affinity = "Phy-ID" if machine.devices.phy_ids else "NPU", machine.links.cpu_affinity
    numbers = [chip.index if machine.devices.phy_ids else chip.card for chip in machine.listed]
    rows = [["", *(f"{word}{n}" for n in numbers), *(["CPU Affinity"] if affinity else [])]]
    for number, chip in zip(numbers, machine.listed, strict=True):
        cells = [relation(machine, chip, other) for other in machine.listed]
        rows.append([f"{word}{number}", *cells, *([affinity[chip.index]] if affinity else [])])
    return "".join("".join(f"{cell:<11}" for cell in row).rstrip() + "\n" for row in rows) + _NPU_LEGEND


def gpu_matrix(machine: Machine) -> str:
    """Tabs between the cells, network cards after the GPUs, and an empty column before the last, as nvidia-smi does."""
    links, gpus = machine.links, machine.listed
    assert links is not None
    tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"] if links.cpu_affinity else []
    nics = [f"NIC{n}" for n in range(len(links.nics))]
    rows = [["", *(f"GPU{n}" for n in range(len(gpus))), *nics, *tail]]
    for n, gpu in enumerate(gpus):
        cells = [_cell(relation(machine, gpu, other)) for other in gpus]
        near = [_nic(links, gpu.index, nic) for nic in range(len(nics))]
        place = [links.cpu_affinity[gpu.index], str(links.numa[gpu.index]), "", "N/A"] if tail else []
        rows.append([f"GPU{n}", *cells, *near, *place])
    for nic, name in enumerate(nics):
        near = [_nic(links, gpu.index, nic) for gpu in gpus]
        rows.append([name, *near, *(" X " if nic == other else "SYS" for other in range(len(nics)))])
    text = "".join("\t".join(row) + "\n" for row in rows) + _GPU_LEGEND
    return text + (
        "\nNIC Legend:\n\n" + "".join(f"  NIC{n}: {n_}\n" for n, n_ in enumerate(links.nics)) if nics else ""
    )


def _cell(word: str) -> str:
    return f" {word} " if word == "X" else word


def _nic(links: Links, gpu: int, nic: int) -> str:
    """Each network card shares the switch of the GPU of its number, and the socket of that GPU's neighbours."""
    if gpu == nic:
        return "PIX"
    same_node = bool(links.numa) and nic < len(links.numa) and links.numa[gpu] == links.numa[nic]
    return "NODE" if same_node else "SYS"

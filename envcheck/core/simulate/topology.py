"""Who is linked to whom, and the matrix that tools in nvidia-smi's manner print of it."""

from __future__ import annotations

from envcheck.core.simulate.machine import Chip, Links, Machine

_LEGEND = """
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


def format_matrix(machine: Machine) -> str:
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
    text = "".join("\t".join(row) + "\n" for row in rows) + _LEGEND
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

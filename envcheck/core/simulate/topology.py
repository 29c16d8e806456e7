"""The links between devices, and the matrix that nvidia-smi and similar tools print."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedChip, SimulatedLinks, SimulatedSystem

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


def find_relation(machine: SimulatedSystem, one: SimulatedChip, other: SimulatedChip) -> str:
    """Return the word for a pair; a lost link leaves the path through the host."""
    links = machine.links
    assert links is not None
    if one.index == other.index:
        return "X"
    if one.index in links.lost or other.index in links.lost:
        return "SYS"
    if links.same_card and one.card == other.card:
        return links.same_card
    return links.inside if _link_group(links, one) == _link_group(links, other) else links.between


def _link_group(links: SimulatedLinks, chip: SimulatedChip) -> int:
    return next((n for n, group in enumerate(links.groups) if chip.index in group), 0)


def format_matrix(machine: SimulatedSystem) -> str:
    """Return the matrix as nvidia-smi prints it: tabs, network cards after the GPUs, an empty column before the last
    one."""
    links, gpus = machine.links, machine.listed_chips
    assert links is not None
    tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"] if links.cpu_affinity else []
    nics = [f"NIC{n}" for n in range(len(links.nics))]
    rows = [["", *(f"GPU{n}" for n in range(len(gpus))), *nics, *tail]]
    for n, gpu in enumerate(gpus):
        cells = [_format_cell(find_relation(machine, gpu, other)) for other in gpus]
        near = [find_nic_relation(links, gpu.index, nic) for nic in range(len(nics))]
        place = [links.cpu_affinity[gpu.index], str(links.numa[gpu.index]), "", "N/A"] if tail else []
        rows.append([f"GPU{n}", *cells, *near, *place])
    for nic, name in enumerate(nics):
        near = [find_nic_relation(links, gpu.index, nic) for gpu in gpus]
        rows.append([name, *near, *(" X " if nic == other else "SYS" for other in range(len(nics)))])
    text = "".join("\t".join(row) + "\n" for row in rows) + _LEGEND
    return text + (
        "\nNIC Legend:\n\n" + "".join(f"  NIC{n}: {n_}\n" for n, n_ in enumerate(links.nics)) if nics else ""
    )


def _format_cell(word: str) -> str:
    return f" {word} " if word == "X" else word


def find_nic_relation(links: SimulatedLinks, gpu: int, nic: int) -> str:
    """Return the relation to a network card: on a switch with its devices, near the others on the first one's socket.

    Its devices are those of `nic_devices`, by default the device with its number; without any, it is near device 0.
    """
    near = links.nic_devices[nic] if nic < len(links.nic_devices) else (nic,)
    if gpu in near:
        return "PIX"
    first = next(iter(near), 0)
    same_node = first < len(links.numa) and links.numa[gpu] == links.numa[first]
    return "NODE" if same_node else "SYS"

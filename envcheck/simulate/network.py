"""Ports, RDMA devices and the bus as a simulated machine's kernel tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import Machine

# The ports that the system gives out: Linux' own default.
_PROC = "/proc/sys/net/ipv4/ip_local"
FILES = {f"{_PROC}_port_range": "32768\t60999\n", f"{_PROC}_reserved_ports": "\n"}


def answers(machine: Machine) -> Mapping[str, Mapping[str, Any]]:
    """By collector."""
    return {
        "rdma": _rdma(machine),
        "bus": {"cards": {_address(chip.bus_id): _slot(machine) for chip in machine.chips}, "strange": {}},
        "rank_table": {"path": None, "error": None, "count": None, "servers": []},
    }


def hcas(machine: Machine) -> list[str]:
    """The network cards of the topology that are RDMA devices, by Mellanox' names."""
    return [name for name in (machine.links.nics if machine.links else ()) if name.startswith("mlx5")]


def _rdma(machine: Machine) -> dict[str, Any]:
    names = hcas(machine)
    down = names[-1:] if machine.is_amiss("rdma-down") else []
    lost = machine.is_amiss("rdma-hidden")
    return {
        "devices": {name: {"kind": "MT4129", "ports": {"1": _port(name not in down)}} for name in names},
        "verbs": [] if lost else [f"uverbs{n}" for n in range(len(names))],
    }


def _port(up: bool) -> dict[str, Any]:
    state, physical = ("ACTIVE", "LinkUp") if up else ("DOWN", "Polling")
    return {"state": state, "physical": physical, "layer": "InfiniBand", "gids": {"0": "IB/RoCE v1"} if up else {}}


def _slot(machine: Machine) -> dict[str, Any]:
    return {"iommu": "DMA" if machine.is_amiss("iommu-on") else "identity", "switches": {}}


def _address(bus_id: str) -> str:
    """As the kernel writes it: a domain of four digits, lower case."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"

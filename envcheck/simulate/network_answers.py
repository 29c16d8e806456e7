"""Ports, RDMA devices and PCI bus of a simulated machine, as the kernel reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import SimulatedSystem

# The ephemeral port range: Linux's default.
_PROC = "/proc/sys/net/ipv4/ip_local"
FILES = {f"{_PROC}_port_range": "32768\t60999\n", f"{_PROC}_reserved_ports": "\n"}


def answer_network_collectors(machine: SimulatedSystem) -> Mapping[str, Mapping[str, Any]]:
    """Return the answers by collector."""
    return {
        "rdma": _answer_rdma(machine),
        "bus": {
            "cards": {_format_bus_address(chip.bus_id): _make_slot(machine) for chip in machine.chips},
            "strange": {},
        },
        "rank_table": {"path": None, "error": None, "count": None, "servers": []},
    }


def list_hcas(machine: SimulatedSystem) -> list[str]:
    """Return the topology's network cards that are RDMA devices, by their Mellanox names."""
    return [name for name in (machine.links.nics if machine.links else ()) if name.startswith("mlx5")]


def _answer_rdma(machine: SimulatedSystem) -> dict[str, Any]:
    names = list_hcas(machine)
    down = names[-1:] if machine.has_fault("rdma-down") else []
    lost = machine.has_fault("rdma-hidden")
    return {
        "devices": {name: {"kind": "MT4129", "ports": {"1": _make_port(name not in down)}} for name in names},
        "verbs": [] if lost else [f"uverbs{n}" for n in range(len(names))],
    }


def _make_port(up: bool) -> dict[str, Any]:
    state, physical = ("ACTIVE", "LinkUp") if up else ("DOWN", "Polling")
    return {"state": state, "physical": physical, "layer": "InfiniBand", "gids": {"0": "IB/RoCE v1"} if up else {}}


def _make_slot(machine: SimulatedSystem) -> dict[str, Any]:
    return {"iommu": "DMA" if machine.has_fault("iommu-on") else "identity", "switches": {}}


def _format_bus_address(bus_id: str) -> str:
    """Return the address as the kernel writes it: four-digit domain, lower case."""
    domain, _unused, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"

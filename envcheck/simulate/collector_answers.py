"""Facts of the simulated host, in the format of probes/host/collectors.py; the clock is the real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.core.units import GIB, MIB
from envcheck.simulate import host_answers, network_answers


def answer_collectors(
    machine: SimulatedSystem, simulation: VendorSimulation, now: float
) -> Mapping[str, Mapping[str, Any]]:
    """Return the answers by collector."""
    return {
        "host": _answer_host(machine),
        "disks": _answer_disks(machine),
        "limits": {
            **dict.fromkeys(("open_files_soft", "open_files_hard"), 1 << 20),
            **dict.fromkeys(("memlock_soft_bytes", "memlock_hard_bytes"), -1),
        },
        "environment": dict(machine.environment),
        "network": _answer_network(machine),
        "clock": {"synchronised": True, "time": now},
        "packages": {
            "python": machine.python,
            "executable": "/usr/bin/python3",
            "packages": dict(machine.packages),
            "requires": {},
            "architecture": machine.host.architecture,
            "environments": {},
            "proofs": {},
        },
        **host_answers.answer_host_collectors(machine, simulation),
        **network_answers.answer_network_collectors(machine),
    }


def _answer_host(machine: SimulatedSystem) -> dict[str, Any]:
    host = machine.host
    total = host.memory_gib * GIB
    return {
        "hostname": host.hostname,
        "kernel": host.kernel,
        "architecture": host.architecture,
        "os": host.os,
        "cpu_count": host.cpus,
        "memory_total_bytes": total,
        "memory_available_bytes": total * 96 // 100,
        "swap_total_bytes": 0,
        "swap_used_bytes": 0,
        "hugepages_total": 0,
        "hugepages_free": 0,
        "hugepage_bytes": 2 * MIB,
        "numa_nodes": host.numa_nodes,
        "euid": host_answers.choose_user_id(machine),
        "in_container": False,
    }


def _answer_disks(machine: SimulatedSystem) -> dict[str, Any]:
    disk, shm = machine.host.disk_gib * GIB, machine.host.shm_mib * MIB
    disks = {path: {"total_bytes": disk, "free_bytes": disk * 3 // 4} for path in ("/", ".", "home", "/var/lib/docker")}
    return {**disks, "/dev/shm": {"total_bytes": shm, "free_bytes": shm}}


def _answer_network(machine: SimulatedSystem) -> dict[str, Any]:
    host = machine.host
    return {
        "hostname_resolves_to": [host.address],
        "interfaces": {
            "lo": {"addresses": ["127.0.0.1"], "mtu": 65536, "up": True},
            host.interface: {"addresses": [host.address], "mtu": 1500, "up": True},
        },
    }

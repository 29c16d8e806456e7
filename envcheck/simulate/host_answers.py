"""What a machine's collectors tell of nodes, processes, kernel, containers and libraries; faults stand in `amiss`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import Chip, Machine
from envcheck.core.simulate.vendor_simulation import ROOT, VendorSimulation
from envcheck.vendors import VENDORS

TRAINER = 1005
ALL_CAPABILITIES = "000001ffffffffff"
OTHER_PID, GHOST_PID = 31044, 40961
OTHER_ID = "9f3c2a71d5e8"


def answers(machine: Machine, simulation: VendorSimulation) -> Mapping[str, Mapping[str, Any]]:
    """By collector."""
    return {
        "caller": _caller(machine),
        "paths": _paths(machine, simulation),
        "processes": _processes(machine),
        "kernel": _kernel(machine, simulation),
        "containers": _containers(machine),
        "libraries": _libraries(machine, simulation),
        "loader": _loader(machine),
    }


def node(machine: Machine, chip: Chip) -> str:
    return f"{VENDORS[machine.vendor].node_pattern.partition('[')[0]}{chip.index}"


def device_nodes(machine: Machine) -> list[str]:
    """Of the cards and beside them; made by the module, and gone with it."""
    own = [node(machine, chip) for chip in machine.chips]
    return [] if machine.is_amiss("module-gone") else [*own, *VENDORS[machine.vendor].control_nodes]


def user_id(machine: Machine) -> int:
    return TRAINER if machine.is_amiss("node-closed") else ROOT


def _caller(machine: Machine) -> dict[str, Any]:
    plain, uid = machine.is_amiss("node-closed"), user_id(machine)
    return {
        "uid": uid,
        "gid": uid,
        "groups": [uid],
        "user": None if machine.is_amiss("user-unnamed") else "trainer" if plain else "root",
        "capabilities": "0" * 16 if plain else ALL_CAPABILITIES,
        "host_pids": True,
    }


def _paths(machine: Machine, simulation: VendorSimulation) -> dict[str, Any]:
    plain = machine.is_amiss("node-closed")
    mode = 0o660 if plain else simulation.node_mode
    found = {path: _path("char", mode, simulation.node_owner, not plain) for path in device_nodes(machine)}
    found |= {path: _path("folder", 0o755, ROOT, not plain) for path in ("/", "/usr", "/usr/local")}
    found |= {path: _path(at.kind, at.mode, ROOT, not plain) for path, at in simulation.paths(machine).items()}
    if machine.docker:
        found["/usr/bin/runc"] = _path("file", 0o777 if machine.is_amiss("runc-open") else 0o755, ROOT, not plain)
    return {"paths": found, "named": _named(machine)}


def _path(kind: str, mode: int, owner: int, usable: bool) -> dict[str, Any]:
    return {"kind": kind, "mode": mode, "uid": owner, "gid": owner, "usable": usable, "target": None}


def _named(machine: Machine) -> dict[str, dict[str, bool]]:
    """Everything that the described environment names is there, except for what a fault took away."""
    said = {name: value.split(":") for name, value in machine.environment.items() if value.startswith("/")}
    gone = machine.is_amiss("path-dead")
    return {
        name: {path: not (gone and name == "LD_LIBRARY_PATH" and n == 0) for n, path in enumerate(listed)}
        for name, listed in said.items()
    }


def _processes(machine: Machine) -> dict[str, Any]:
    held = [(chip, holder) for chip in machine.chips for holder in chip.holders]
    holding = [_holding(h.pid, h.name, node(machine, c)) for c, h in held if h.pid != GHOST_PID]
    if machine.is_amiss("node-held"):
        holding.append({**_holding(OTHER_PID, "python3", node(machine, machine.chips[0])), "container": OTHER_ID})
    return {"pids": sorted({1, 2, 812, *(one["pid"] for one in holding)}), "blind": 0, "holding": holding}


def _holding(pid: int, name: str, held: str) -> dict[str, Any]:
    return {
        "pid": pid,
        "nodes": [held],
        "name": name,
        "uid": TRAINER,
        "parent": 812,
        "state": "S",
        "age_s": 5400,
        "container": None,
    }


def _kernel(machine: Machine, simulation: VendorSimulation) -> dict[str, Any]:
    running, modules = machine.host.kernel, list(simulation.kernel_modules)
    gone = machine.is_amiss("module-gone")
    kernels = {running: {"modules": [] if gone else modules, "bootable": True}}
    if gone:
        kernels[f"{running}-before"] = {"modules": modules, "bootable": True}
    if machine.is_amiss("kernel-next"):
        kernels[f"9{running}"] = {"modules": [], "bootable": True}
    version = {} if gone or not machine.driver else dict.fromkeys(modules, machine.driver.version)
    return {
        "running": running,
        "loaded": [] if gone else modules,
        "versions": version,
        "kernels": kernels,
        "headers": True,
        "tools": {"gcc": True, "make": True, "dkms": True},
        "secure_boot": False,
    }


def _containers(machine: Machine) -> dict[str, Any]:
    if machine.docker is None:
        return {"error": "docker: not found", "containers": []}
    vendor, shm = VENDORS[machine.vendor], 64 << 20 if machine.is_amiss("container-shm") else 64 << 30
    if not (machine.is_amiss("card-shared") or machine.is_amiss("container-shm")):
        return {"error": None, "containers": []}
    running = {
        "name": "someone",
        "image": "training:1.0",
        "pid": OTHER_PID,
        "privileged": False,
        "nodes": [node(machine, machine.chips[0])],
        "visible": {},
        "requests": [],
        "shm_bytes": shm,
        "ipc": "private",
        "runtime": "runc",
        "mounts": {path: path for path in vendor.driver_mounts},
    }
    return {"error": None, "containers": [running]}


def _two(machine: Machine) -> dict[str, list[str]]:
    name = VENDORS[machine.vendor].libraries[-1][0]
    return {name: [f"{VENDORS[machine.vendor].toolkit_folder}/lib64/{name}", f"/opt/conda/lib/{name}"]}


def _loader(machine: Machine) -> dict[str, Any]:
    """An Ubuntu 22.04's C++ library; Paddle's wheels want 3.4.22 of it (read from one)."""
    arch, small = machine.host.architecture, machine.is_amiss("standard-old")
    named = [path for path in machine.environment.get("LD_PRELOAD", "").split(":") if path]
    framework = "/usr/lib/python3/dist-packages/paddle/base/libpaddle.so"
    return {
        "preload": {path: {"machine": arch, "soname": path.rpartition("/")[2]} for path in named},
        "standard": {"path": "/usr/lib64/libstdc++.so.6", "gives": "3.4.19" if small else "3.4.30"},
        "wants": {framework: "3.4.22"} if any("paddle" in name for name in machine.packages) else {},
        "openmp": [],
        "copies": _two(machine) if machine.is_amiss("library-twice") else {},
    }


def _libraries(machine: Machine, simulation: VendorSimulation) -> dict[str, Any]:
    fine = {"loads": True, "error": "", "path": None}
    lost = simulation.lost_library if machine.is_amiss("library-lost") else None
    error = f"{lost}: cannot open shared object file: No such file or directory"  # the loader's words
    return {
        name: {"loads": False, "error": error, "path": None} if name == lost else fine
        for name, _ in VENDORS[machine.vendor].libraries
    }

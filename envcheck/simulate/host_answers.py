"""Facts of a simulated host: device nodes, processes, kernel, containers and libraries; faults are in `amiss`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import SimulatedChip, SimulatedSystem
from envcheck.core.simulate.vendor_simulation import ROOT, VendorSimulation
from envcheck.vendors import VENDORS

TRAINER = 1005
ALL_CAPABILITIES = "000001ffffffffff"
OTHER_PID, GHOST_PID = 31044, 40961
OTHER_ID = "9f3c2a71d5e8"


def answer_host_collectors(machine: SimulatedSystem, simulation: VendorSimulation) -> Mapping[str, Mapping[str, Any]]:
    """Return the answers by collector."""
    return {
        "caller": _answer_caller(machine),
        "paths": _answer_paths(machine, simulation),
        "processes": _answer_processes(machine),
        "kernel": _answer_kernel(machine, simulation),
        "containers": _answer_containers(machine),
        "libraries": _answer_libraries(machine, simulation),
        "loader": _answer_loader(machine),
    }


def name_device_node(machine: SimulatedSystem, chip: SimulatedChip) -> str:
    """Return the path of the chip's device node."""
    return f"{VENDORS[machine.vendor].node_pattern.partition('[')[0]}{chip.index}"


def list_device_nodes(machine: SimulatedSystem) -> list[str]:
    """Return the device nodes of the cards and the driver; they disappear with the kernel module."""
    own = [name_device_node(machine, chip) for chip in machine.chips]
    return [] if machine.has_fault("module-gone") else [*own, *VENDORS[machine.vendor].control_nodes]


def choose_user_id(machine: SimulatedSystem) -> int:
    """Return the id of the user that runs envcheck."""
    return TRAINER if machine.has_fault("node-closed") else ROOT


def _answer_caller(machine: SimulatedSystem) -> dict[str, Any]:
    plain, uid = machine.has_fault("node-closed"), choose_user_id(machine)
    return {
        "uid": uid,
        "gid": uid,
        "groups": [uid],
        "user": None if machine.has_fault("user-unnamed") else "trainer" if plain else "root",
        "capabilities": "0" * 16 if plain else ALL_CAPABILITIES,
        "host_pids": True,
    }


def _answer_paths(machine: SimulatedSystem, simulation: VendorSimulation) -> dict[str, Any]:
    plain = machine.has_fault("node-closed")
    mode = 0o660 if plain else simulation.node_mode
    found = {path: _make_path("char", mode, simulation.node_owner, not plain) for path in list_device_nodes(machine)}
    found |= {path: _make_path("folder", 0o755, ROOT, not plain) for path in ("/", "/usr", "/usr/local")}
    found |= {path: _make_path(at.kind, at.mode, ROOT, not plain) for path, at in simulation.paths(machine).items()}
    if machine.docker:
        found["/usr/bin/runc"] = _make_path("file", 0o777 if machine.has_fault("runc-open") else 0o755, ROOT, not plain)
    return {"paths": found, "named": _list_named_paths(machine)}


def _make_path(kind: str, mode: int, owner: int, usable: bool) -> dict[str, Any]:
    return {"kind": kind, "mode": mode, "uid": owner, "gid": owner, "usable": usable, "target": None}


def _list_named_paths(machine: SimulatedSystem) -> dict[str, dict[str, bool]]:
    """Return the paths that the described environment names; all exist except what a fault removed."""
    said = {name: value.split(":") for name, value in machine.environment.items() if value.startswith("/")}
    gone = machine.has_fault("path-dead")
    return {
        name: {path: not (gone and name == "LD_LIBRARY_PATH" and n == 0) for n, path in enumerate(listed)}
        for name, listed in said.items()
    }


def _answer_processes(machine: SimulatedSystem) -> dict[str, Any]:
    held = [(chip, holder) for chip in machine.chips for holder in chip.holders]
    holding = [_make_holder(h.pid, h.name, name_device_node(machine, c)) for c, h in held if h.pid != GHOST_PID]
    if machine.has_fault("node-held"):
        holding.append(
            {**_make_holder(OTHER_PID, "python3", name_device_node(machine, machine.chips[0])), "container": OTHER_ID}
        )
    return {"pids": sorted({1, 2, 812, *(one["pid"] for one in holding)}), "blind": 0, "holding": holding}


def _make_holder(pid: int, name: str, held: str) -> dict[str, Any]:
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


def _answer_kernel(machine: SimulatedSystem, simulation: VendorSimulation) -> dict[str, Any]:
    running, modules = machine.host.kernel, list(simulation.kernel_modules)
    gone = machine.has_fault("module-gone")
    kernels = {running: {"modules": [] if gone else modules, "bootable": True}}
    if gone:
        kernels[f"{running}-before"] = {"modules": modules, "bootable": True}
    if machine.has_fault("kernel-next"):
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


def _answer_containers(machine: SimulatedSystem) -> dict[str, Any]:
    if machine.docker is None:
        return {"error": "docker: not found", "containers": []}
    vendor, shm = VENDORS[machine.vendor], 64 << 20 if machine.has_fault("container-shm") else 64 << 30
    if not (machine.has_fault("card-shared") or machine.has_fault("container-shm")):
        return {"error": None, "containers": []}
    running = {
        "name": "someone",
        "image": "training:1.0",
        "pid": OTHER_PID,
        "privileged": False,
        "nodes": [name_device_node(machine, machine.chips[0])],
        "visible": {},
        "requests": [],
        "shm_bytes": shm,
        "ipc": "private",
        "runtime": "runc",
        "mounts": {path: path for path in vendor.driver_mounts},
    }
    return {"error": None, "containers": [running]}


def _list_library_copies(machine: SimulatedSystem) -> dict[str, list[str]]:
    name = VENDORS[machine.vendor].libraries[-1][0]
    return {name: [f"{VENDORS[machine.vendor].toolkit_folder}/lib64/{name}", f"/opt/conda/lib/{name}"]}


def _answer_loader(machine: SimulatedSystem) -> dict[str, Any]:
    """Return the C++ library of Ubuntu 22.04; Paddle's wheels require 3.4.22 of it (read from a wheel)."""
    arch, small = machine.host.architecture, machine.has_fault("standard-old")
    named = [path for path in machine.environment.get("LD_PRELOAD", "").split(":") if path]
    framework = "/usr/lib/python3/dist-packages/paddle/base/libpaddle.so"
    return {
        "preload": {path: {"machine": arch, "soname": path.rpartition("/")[2]} for path in named},
        "standard": {"path": "/usr/lib64/libstdc++.so.6", "gives": "3.4.19" if small else "3.4.30"},
        "wants": {framework: "3.4.22"} if any("paddle" in name for name in machine.packages) else {},
        "openmp": [],
        "copies": _list_library_copies(machine) if machine.has_fault("library-twice") else {},
    }


def _answer_libraries(machine: SimulatedSystem, simulation: VendorSimulation) -> dict[str, Any]:
    fine = {"loads": True, "error": "", "path": None}
    lost = simulation.lost_library if machine.has_fault("library-lost") else None
    error = f"{lost}: cannot open shared object file: No such file or directory"  # message of the dynamic loader
    return {
        name: {"loads": False, "error": error, "path": None} if name == lost else fine
        for name, _unused in VENDORS[machine.vendor].libraries
    }

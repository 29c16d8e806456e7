"""What a machine's collectors tell of nodes, processes, kernel, containers and libraries; faults stand in `amiss`.

Owners and modes: Ascend's driver gives its nodes to HwHiAiUser (uid and gid 1000, mode 660: its container guides);
NVIDIA's and Iluvatar's are open to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.simulate.machine import Chip, Machine
from envcheck.vendors import VENDORS

ROOT, DRIVER_USER, TRAINER = 0, 1000, 1005
ALL_CAPABILITIES = "000001ffffffffff"
LOADED = {
    "npu": ("drv_davinci_intf_host", "drv_devmng_host", "drv_pcie_host"),
    "iluvatar": ("iluvatar",),
    "nvidia": ("nvidia", "nvidia_uvm"),
    "cpu": (),
}
OTHER_PID, GHOST_PID = 31044, 40961
OTHER_ID = "9f3c2a71d5e8"
_LOST = {  # what the loader says of a file that is not there
    "npu": "libascend_hal.so: cannot open shared object file: No such file or directory",
    "iluvatar": "libixml.so: cannot open shared object file: No such file or directory",
    "nvidia": "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
}


def told(machine: Machine) -> Mapping[str, Mapping[str, Any]]:
    """By collector."""
    return {
        "caller": _caller(machine),
        "paths": _paths(machine),
        "processes": _processes(machine),
        "kernel": _kernel(machine),
        "containers": _containers(machine),
        "libraries": _libraries(machine),
        "loader": _loader(machine),
    }


def node(machine: Machine, chip: Chip) -> str:
    return f"{VENDORS[machine.vendor].node_pattern.partition('[')[0]}{chip.index}"


def _caller(machine: Machine) -> dict[str, Any]:
    plain = machine.is_amiss("node-closed")
    uid = TRAINER if plain else ROOT
    return {
        "uid": uid,
        "gid": uid,
        "groups": [uid],
        "user": None if machine.is_amiss("user-unnamed") else "trainer" if plain else "root",
        "capabilities": "0" * 16 if plain else ALL_CAPABILITIES,
        "host_pids": True,
    }


def _paths(machine: Machine) -> dict[str, Any]:
    plain, gone = machine.is_amiss("node-closed"), machine.is_amiss("module-gone")
    npu, made = machine.vendor == "npu", "folder" if machine.is_amiss("mount-folder") else "file"
    nodes = [] if gone else [*(node(machine, c) for c in machine.chips), *VENDORS[machine.vendor].control_nodes]
    owner, mode = (DRIVER_USER, 0o660) if npu else (ROOT, 0o660 if plain else 0o666)
    found = {path: _path("char", mode, owner, not plain) for path in nodes}
    found |= {path: _path("folder", 0o755, ROOT, not plain) for path in ("/", "/usr", "/usr/local")}
    if npu and machine.driver:
        folders = ("/usr/local/dcmi", "/usr/local/Ascend", "/usr/local/Ascend/driver", "/usr/local/Ascend/driver/lib64")
        found |= {path: _path("folder", 0o755, ROOT, not plain) for path in folders}
        found |= {path: _path("file", 0o644, ROOT, not plain) for path in ("/usr/local/Ascend/driver/version.info",)}
        found["/etc/hccn.conf"] = _path("file", 0o640, ROOT, not plain)
        found["/etc/ascend_install.info"] = _path(made, 0o644, ROOT, not plain)
        writable = machine.is_amiss("dcmi-writable")
        found["/usr/local/dcmi/libdcmi.so"] = _path("file", 0o666 if writable else 0o550, ROOT, not plain)
    if machine.vendor == "iluvatar":
        found["/usr/local/bin/ixsmi"] = _path("file", 0o755, ROOT, not plain)
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


def _kernel(machine: Machine) -> dict[str, Any]:
    running, modules = machine.host.kernel, list(LOADED[machine.vendor])
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


def _libraries(machine: Machine) -> dict[str, Any]:
    fine = {"loads": True, "error": "", "path": None}
    lost = machine.is_amiss("library-lost") and _LOST[machine.vendor]
    return {
        name: {"loads": False, "error": lost, "path": None} if lost and lost.startswith(name) else fine
        for name, _ in VENDORS[machine.vendor].libraries
    }

"""What the host itself shows, by the standard library; each collector returns plain JSON values.

A collector is called with the records of the vendors, for whose cards, drivers and variables it looks, and with
`run(argv, timeout_s)`, which runs a program.

host         {hostname, kernel, architecture, os, cpu_count, memory_total_bytes, memory_available_bytes,
              swap_total_bytes, swap_used_bytes, hugepages_total, hugepages_free, hugepage_bytes, numa_nodes, euid,
              in_container}
disks        {path: {total_bytes, free_bytes}} for /, /dev/shm, "." (the working folder), "home" (envcheck's),
              /var/lib/docker and what is mounted; of a path that is not there yet, its nearest parent
limits       {open_files_soft, open_files_hard, memlock_soft_bytes, memlock_hard_bytes}; -1 is unlimited
environment  {NAME: value} of the variables that training reads
network      {hostname_resolves_to: [address] | null, interfaces: {name: {addresses: [..], mtu, up}}}
clock        {synchronised: true | false | null, time: seconds since 1970}
packages     {python, executable, packages: {name: version}, requires: {name: [requirement]}, architecture,
              environments: {recipe: {python, ...}}, proofs: {recipe: digest}}: of the python3 on PATH, of the
              environments that provision made, and what it proved there
caller, paths: permissions.py; processes, kernel, containers, libraries, loader, rdma, bus, rank_table: in their files
"""

import ctypes
import os
import platform
import re
import resource
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.collect.host import (
    bus,
    containers,
    hccl_rank_table,
    installed,
    interfaces,
    kernel,
    libraries,
    loader,
    permissions,
    processes,
    proofs,
    rdma,
)
from envcheck.core import home_folder

# What collectors read of a vendor's record.
VENDOR_FIELDS = (
    *("name", "pci_vendor", "pci_classes", "node_pattern", "control_nodes", "kernel_modules", "libraries", "cdi_kind"),
    *("owns_gpus_option", "visible_env", "runtime_env", "port_env", "toolkit_variables", "path_variables"),
    *("toolkit_folder", "driver_files", "watched_paths"),
)
# What training, its launchers and the vendors' libraries read (recipes.md, section 10).
TRAINING_VARIABLES = re.compile(
    r"^((PADDLE|FLAGS|ASCEND|HCCL|ILUVATAR|IX|NPU|NCCL|GLOO|FLAGCX|CUDA|CUSTOM_DEVICE|DISTRIBUTED|ATB|TORCH|PYTORCH"
    r"|OMP|MASTER|POD|XPU|TP)_\w+|(LOCAL_|NODE_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|NNODES|NPROC_PER_NODE"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|MEGATRON_LM_PATH|VIRTUAL_ENV|CONDA_PREFIX|(?i:https?_proxy|all_proxy|no_proxy))$"
)
VARIABLES_LIMIT, MOUNTS_LIMIT = 256, 32
STA_UNSYNC, TIME_ERROR = 0x40, 5  # linux/timex.h


def host() -> "dict[str, Any]":
    meminfo = _text("/proc/meminfo")
    memory = {found[1]: int(found[2]) * 1024 for found in re.finditer(r"^(\w+):\s+(\d+) kB", meminfo, re.MULTILINE)}
    return {
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os": _os_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_total_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_total_bytes": memory.get("SwapTotal"),
        "swap_used_bytes": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        **_hugepages(meminfo),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "euid": os.geteuid(),
        "in_container": _in_container(),
    }


def disks() -> "dict[str, Any]":
    fixed = {"/": "/", "/dev/shm": "/dev/shm", ".": ".", "/var/lib/docker": "/var/lib/docker"}
    home = home_folder.known_home()
    if home:
        fixed["home"] = str(home)
    return {name: _room(Path(path)) for name, path in {**{m: m for m in _mounted()}, **fixed}.items()}


def _mounted() -> "list[str]":
    """Where file systems of disks are mounted: those of kinds without `nodev`, ZFS, and none of an image."""
    kinds = {line.strip() for line in _text("/proc/filesystems").splitlines() if not line.startswith("nodev")} | {"zfs"}
    lines = (line.split() for line in _text("/proc/self/mounts").splitlines())
    there = [words[1] for words in lines if len(words) > 2 and words[0] != "none" and words[2] in kinds]
    return [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path) for path in there][:MOUNTS_LIMIT]


def limits() -> "dict[str, Any]":
    files, locked = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_MEMLOCK)
    names = ("open_files_soft", "open_files_hard", "memlock_soft_bytes", "memlock_hard_bytes")
    return {name: -1 if v == resource.RLIM_INFINITY else v for name, v in zip(names, files + locked)}


def environment(vendors: "Sequence[Any]") -> "dict[str, Any]":
    own = {name for v in vendors for name in (v.visible_env, v.runtime_env, v.port_env, *v.toolkit_variables)}
    found = sorted(name for name in os.environ if TRAINING_VARIABLES.match(name) or name in own)[:VARIABLES_LIMIT]
    return {name: os.environ[name] for name in found}


def network() -> "dict[str, Any]":
    return {"hostname_resolves_to": _addresses(socket.gethostname()), "interfaces": interfaces.interfaces()}


def clock() -> "dict[str, Any]":
    return {"synchronised": _synchronised(), "time": int(time.time())}


def packages(run: "Callable[..., Any]") -> "dict[str, Any]":
    home = home_folder.known_home()
    made = home / "environments" if home else None
    folders = sorted(made.iterdir()) if made and made.is_dir() else []
    environments = {folder.name: installed.of_environment(folder) for folder in folders if (folder / "bin").is_dir()}
    known = ((f.name, proofs.of_folder(f, environments.get(f.name, {}).get("packages"))) for f in folders)
    proved = {name: digest for name, digest in known if digest}
    return {**installed.of_path_python(run), "environments": environments, "proofs": proved}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _os_name() -> "str | None":
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', _text("/etc/os-release"), re.MULTILINE)
    return named[1] if named else None


def _hugepages(meminfo: str) -> "dict[str, int | None]":
    """Reserved pages, from lines such as `HugePages_Total:    1024` and `Hugepagesize:  2048 kB`."""
    said = {m[1]: int(m[2]) for m in re.finditer(r"^(\w+):\s+(\d+)", meminfo, re.MULTILINE)}
    size = said.get("Hugepagesize")
    return {
        "hugepages_total": said.get("HugePages_Total"),
        "hugepages_free": said.get("HugePages_Free"),
        "hugepage_bytes": None if size is None else size * 1024,
    }


def _in_container() -> bool:
    marks = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    marks = marks or "KUBERNETES_SERVICE_HOST" in os.environ  # the kubelet's, in every pod; cgroup v2 hides its name
    return marks or bool(re.search(r"docker|kubepods|containerd|lxc", _text("/proc/1/cgroup")))


def _room(path: "Path") -> "dict[str, int | None]":
    """Of the nearest parent that exists: a folder that will be made lies on that file system."""
    for there in (path, *path.absolute().parents):
        try:
            found = os.statvfs(there)
        except FileNotFoundError:
            continue
        except OSError:
            break
        return {"total_bytes": found.f_blocks * found.f_frsize, "free_bytes": found.f_bavail * found.f_frsize}
    return {"total_bytes": None, "free_bytes": None}


def _addresses(name: str) -> "list[str] | None":
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None)})
    except OSError:
        return None


class _Timex(ctypes.Structure):
    """The head of struct timex; the kernel fills 208 bytes, the padding holds the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def _synchronised() -> "bool | None":
    """The kernel's own word: chrony, ntpd and systemd-timesyncd all tell it.  None where it may not be asked."""
    asked = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != TIME_ERROR and not asked.status & STA_UNSYNC


def _of_host(collect: "Callable[[], dict[str, Any]]") -> "Callable[..., dict[str, Any]]":
    """A collector that needs neither vendors nor programs."""
    return lambda vendors, run: collect()


def _of_vendors(collect: "Callable[..., dict[str, Any]]") -> "Callable[..., dict[str, Any]]":
    return lambda vendors, run: collect(vendors)


COLLECTORS: "Mapping[str, Callable[..., dict[str, Any]]]" = {
    "host": _of_host(host),
    "disks": _of_host(disks),
    "limits": _of_host(limits),
    "environment": _of_vendors(environment),
    "network": _of_host(network),
    "clock": _of_host(clock),
    "packages": lambda vendors, run: packages(run),
    "caller": _of_host(permissions.caller),
    "paths": _of_vendors(permissions.paths),
    "processes": _of_vendors(processes.processes),
    "kernel": _of_vendors(kernel.kernel),
    "containers": containers.containers,
    "libraries": libraries.libraries,
    "loader": _of_vendors(loader.loader),
    "rdma": _of_host(rdma.rdma),
    "bus": _of_vendors(bus.bus),
    "rank_table": _of_host(hccl_rank_table.rank_table),
}

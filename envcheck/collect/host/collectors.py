"""Collectors that need only the standard library; each returns plain JSON values.

A collector receives the vendors' records, which name devices, drivers and variables to look for, and `run(argv,
timeout_s)`, which runs a program.

    host         {hostname, kernel, architecture, os, cpu_count, memory_total_bytes, memory_available_bytes,
                  swap_total_bytes, swap_used_bytes, hugepages_total, hugepages_free, hugepage_bytes, numa_nodes, euid,
                  in_container}
    disks        {path: {total_bytes, free_bytes}} for /, /dev/shm, "." (the working folder), "home" (envcheck's),
                  /var/lib/docker and mounted disks; for a path that does not exist, its nearest parent
    limits       {open_files_soft, open_files_hard, memlock_soft_bytes, memlock_hard_bytes}; -1 is unlimited
    environment  {NAME: value} of the variables that training reads
    network      {hostname_resolves_to: [address] | null, interfaces: {name: {addresses: [..], mtu, up}}}
    clock        {synchronised: true | false | null, time: seconds since 1970}
    packages     {python, executable, packages: {name: version}, requires: {name: [requirement]}, architecture,
                  environments: {recipe: {python, ...}}, proofs: {recipe: digest}}: the python3 on PATH, the
                  environments that provision created, and the recipes that it verified there
    caller, paths: permissions.py; processes, kernel, containers, libraries, loader, rdma, bus, rank_table: own modules
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
from envcheck.core.portable import home_folder

# The fields of a vendor's record that collectors use.
VENDOR_FIELDS = (
    *("name", "pci_vendors", "pci_classes", "node_pattern", "control_nodes", "kernel_modules", "libraries", "cdi_kind"),
    *("owns_gpus_option", "visible_env", "runtime_env", "port_env", "toolkit_variables", "path_variables"),
    *("toolkit_folder", "driver_files", "watched_paths", "variable_prefixes"),
)
# The variables that training and its launchers read; those of a vendor's libraries begin with its `variable_prefixes`.
TRAINING_VARIABLES = re.compile(
    r"^((PADDLE|FLAGS|GLOO|FLAGCX|CUSTOM_DEVICE|DISTRIBUTED|TORCH|PYTORCH|OMP|MASTER|POD|TP)_\w+"
    r"|(LOCAL_|NODE_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|NNODES|NPROC_PER_NODE|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|PYTHONPATH|MEGATRON_LM_PATH|VIRTUAL_ENV|CONDA_PREFIX|(?i:https?_proxy|all_proxy|no_proxy))$"
)
VARIABLES_LIMIT, MOUNTS_LIMIT = 256, 32
STA_UNSYNC, TIME_ERROR = 0x40, 5  # linux/timex.h


def collect_host() -> "dict[str, Any]":
    """Return the system facts from uname, /proc/meminfo and /sys."""
    meminfo = _read_text("/proc/meminfo")
    memory = {found[1]: int(found[2]) * 1024 for found in re.finditer(r"^(\w+):\s+(\d+) kB", meminfo, re.MULTILINE)}
    return {
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os": _read_os_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_total_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_total_bytes": memory.get("SwapTotal"),
        "swap_used_bytes": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        **_parse_hugepages(meminfo),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "euid": os.geteuid(),
        "in_container": _is_in_container(),
    }


def collect_disks() -> "dict[str, Any]":
    """Return size and free space by path."""
    fixed = {"/": "/", "/dev/shm": "/dev/shm", ".": ".", "/var/lib/docker": "/var/lib/docker"}
    home = home_folder.find_envcheck_home()
    if home:
        fixed["home"] = str(home)
    return {name: _measure_space(Path(path)) for name, path in {**{m: m for m in _list_mounts()}, **fixed}.items()}


def _list_mounts() -> "list[str]":
    """Return the mount points of disk file systems: types without `nodev`, and ZFS."""
    kinds = {line.strip() for line in _read_text("/proc/filesystems").splitlines() if not line.startswith("nodev")} | {
        "zfs"
    }
    lines = (line.split() for line in _read_text("/proc/self/mounts").splitlines())
    there = [words[1] for words in lines if len(words) > 2 and words[0] != "none" and words[2] in kinds]
    return [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path) for path in there][:MOUNTS_LIMIT]


def collect_limits() -> "dict[str, Any]":
    """Return the resource limits of this process."""
    files, locked = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_MEMLOCK)
    names = ("open_files_soft", "open_files_hard", "memlock_soft_bytes", "memlock_hard_bytes")
    return {name: -1 if v == resource.RLIM_INFINITY else v for name, v in zip(names, files + locked)}


def collect_environment(vendors: "Sequence[Any]") -> "dict[str, Any]":
    """Return the environment variables that training, launchers and vendor libraries read."""
    own = {name for v in vendors for name in (v.visible_env, v.runtime_env, v.port_env, *v.toolkit_variables)}
    prefixes = tuple(f"{prefix}_" for v in vendors for prefix in v.variable_prefixes)
    wanted = (name for name in os.environ if name in own or name.startswith(prefixes) or TRAINING_VARIABLES.match(name))
    return {name: os.environ[name] for name in sorted(wanted)[:VARIABLES_LIMIT]}


def collect_network() -> "dict[str, Any]":
    """Return the addresses of the host's own name, and the network interfaces."""
    return {
        "hostname_resolves_to": _resolve_addresses(socket.gethostname()),
        "interfaces": interfaces.collect_interfaces(),
    }


def collect_clock() -> "dict[str, Any]":
    """Return whether the clock is synchronised, and the time."""
    return {"synchronised": _is_clock_synchronized(), "time": int(time.time())}


def collect_packages(run: "Callable[..., Any]") -> "dict[str, Any]":
    """Return the packages of the python3 on PATH and of envcheck's environments, and the verified recipes."""
    home = home_folder.find_envcheck_home()
    made = home / "environments" if home else None
    folders = sorted(made.iterdir()) if made and made.is_dir() else []
    environments = {
        folder.name: installed.inspect_environment(folder) for folder in folders if (folder / "bin").is_dir()
    }
    known = ((f.name, proofs.read_proof(f, environments.get(f.name, {}).get("packages"))) for f in folders)
    proved = {name: digest for name, digest in known if digest}
    return {**installed.inspect_path_python(run), "environments": environments, "proofs": proved}


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _read_os_name() -> "str | None":
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read_text("/etc/os-release"), re.MULTILINE)
    return named[1] if named else None


def _parse_hugepages(meminfo: str) -> "dict[str, int | None]":
    """Return the reserved huge pages from lines such as `HugePages_Total: 1024` and `Hugepagesize: 2048 kB`."""
    values = {m[1]: int(m[2]) for m in re.finditer(r"^(\w+):\s+(\d+)", meminfo, re.MULTILINE)}
    size = values.get("Hugepagesize")
    return {
        "hugepages_total": values.get("HugePages_Total"),
        "hugepages_free": values.get("HugePages_Free"),
        "hugepage_bytes": None if size is None else size * 1024,
    }


def _is_in_container() -> bool:
    marks = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    marks = marks or "KUBERNETES_SERVICE_HOST" in os.environ  # set in every pod; cgroup v2 hides the name
    return marks or bool(re.search(r"docker|kubepods|containerd|lxc", _read_text("/proc/1/cgroup")))


def _measure_space(path: "Path") -> "dict[str, int | None]":
    """Return the space of the nearest existing parent: a folder created later will be on that file system."""
    for there in (path, *path.absolute().parents):
        try:
            found = os.statvfs(there)
        except FileNotFoundError:
            continue
        except OSError:
            break
        return {"total_bytes": found.f_blocks * found.f_frsize, "free_bytes": found.f_bavail * found.f_frsize}
    return {"total_bytes": None, "free_bytes": None}


def _resolve_addresses(name: str) -> "list[str] | None":
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None)})
    except OSError:
        return None


class _Timex(ctypes.Structure):
    """The head of struct timex; the kernel fills 208 bytes, the padding covers the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def _is_clock_synchronized() -> "bool | None":
    """Return the kernel's state, which chrony, ntpd and systemd-timesyncd set. None if it is not accessible."""
    asked = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != TIME_ERROR and not asked.status & STA_UNSYNC


def _host_collector(collect: "Callable[[], dict[str, Any]]") -> "Callable[..., dict[str, Any]]":
    """Wrap a collector that needs neither vendors nor programs."""
    return lambda vendors, run: collect()


def _vendor_collector(collect: "Callable[..., dict[str, Any]]") -> "Callable[..., dict[str, Any]]":
    return lambda vendors, run: collect(vendors)


COLLECTORS: "Mapping[str, Callable[..., dict[str, Any]]]" = {
    "host": _host_collector(collect_host),
    "disks": _host_collector(collect_disks),
    "limits": _host_collector(collect_limits),
    "environment": _vendor_collector(collect_environment),
    "network": _host_collector(collect_network),
    "clock": _host_collector(collect_clock),
    "packages": lambda vendors, run: collect_packages(run),
    "caller": _host_collector(permissions.collect_caller),
    "paths": _vendor_collector(permissions.collect_paths),
    "processes": _vendor_collector(processes.collect_processes),
    "kernel": _vendor_collector(kernel.collect_kernel),
    "containers": containers.collect_containers,
    "libraries": libraries.collect_libraries,
    "loader": _vendor_collector(loader.collect_loader),
    "rdma": _host_collector(rdma.collect_rdma),
    "bus": _vendor_collector(bus.collect_bus),
    "rank_table": _host_collector(hccl_rank_table.collect_rank_table),
}

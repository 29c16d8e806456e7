"""The five answers of psutil that probes/host/collectors.py asks for, by /proc and the C library alone.

It travels to the nodes under psutil's name: nothing needs to be installed there.
"""

from __future__ import annotations

import ctypes
import re
import socket
from pathlib import Path
from typing import Any, NamedTuple

NOT_ON_DISKS = "nodev"  # as /proc/filesystems marks them


class Memory(NamedTuple):
    total: int
    available: int


class Swap(NamedTuple):
    total: int
    used: int


class Part(NamedTuple):
    mountpoint: str


class Address(NamedTuple):
    family: int
    address: str


class Stats(NamedTuple):
    isup: bool
    mtu: int


def virtual_memory() -> Memory:
    said = _meminfo()
    return Memory(said["MemTotal"], said.get("MemAvailable", said["MemFree"]))


def swap_memory() -> Swap:
    said = _meminfo()
    return Swap(said["SwapTotal"], said["SwapTotal"] - said["SwapFree"])


def disk_partitions() -> list[Part]:
    """What lies on a device of its own; a blank in a path is \\040 in /proc/mounts."""
    lines = Path("/proc/filesystems").read_text().splitlines()
    kinds = {"zfs", *(line.strip() for line in lines if not line.startswith(NOT_ON_DISKS))}
    rows = [line.split() for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines()]
    plain = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), row[1]) for row in rows if row[2] in kinds]
    return [Part(path) for path in plain]


def net_if_stats() -> dict[str, Stats]:
    found = {}
    for folder in Path("/sys/class/net").iterdir():
        try:
            flags = int((folder / "flags").read_text(), 16)
            found[folder.name] = Stats(_running(folder, flags), int((folder / "mtu").read_text()))
        except (OSError, ValueError):  # gone, or a file such as bonding_masters
            continue
    return found


def _running(folder: Path, flags: int) -> bool:
    """The kernel's own flag is not in /sys; its state is: loopback and tunnels say unknown, and run."""
    state = (folder / "operstate").read_text().strip()
    return bool(flags & 1) and state in ("up", "unknown")


class _Socket(ctypes.Structure):
    _fields_ = (("family", ctypes.c_uint16), ("rest", ctypes.c_ubyte * 26))


class _Entry(ctypes.Structure):
    """struct ifaddrs of getifaddrs(3), as far as it is read."""


_Entry._fields_ = (
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_Socket)),
)


def net_if_addrs() -> dict[str, list[Address]]:
    library: Any = ctypes.CDLL(None, use_errno=True)
    head = ctypes.POINTER(_Entry)()
    if library.getifaddrs(ctypes.byref(head)):
        raise OSError(ctypes.get_errno(), "getifaddrs")
    found: dict[str, list[Address]] = {}
    entry = head
    while entry:
        one = entry.contents
        listed = found.setdefault((one.name or b"").decode("utf-8", "replace"), [])
        if one.address and (address := _address(one.address.contents, (one.name or b"").decode("utf-8", "replace"))):
            listed.append(address)
        entry = one.next
    library.freeifaddrs(head)
    return found


def _address(found: _Socket, name: str) -> Address | None:
    """Behind the family: port (2 bytes), then for IPv6 flow (4), address (16); a link's own address names the link."""
    raw = bytes(found.rest)
    if found.family == socket.AF_INET:
        return Address(socket.AF_INET, socket.inet_ntop(socket.AF_INET, raw[2:6]))
    if found.family == socket.AF_INET6:
        text = socket.inet_ntop(socket.AF_INET6, raw[6:22])
        return Address(socket.AF_INET6, f"{text}%{name}" if text.startswith("fe80") else text)
    return None


def _meminfo() -> dict[str, int]:
    """Bytes; /proc/meminfo counts KiB."""
    text = Path("/proc/meminfo").read_text()
    return {m[1]: int(m[2]) * 1024 for m in re.finditer(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}

"""Network interfaces, by getifaddrs(3) and /sys/class/net."""

import ctypes
import socket
from pathlib import Path
from typing import Any

SYS = Path("/sys/class/net")
UP = 0x1  # IFF_UP


class _SocketAddress(ctypes.Structure):
    """The head of struct sockaddr, and enough of the rest for an IPv6 address."""

    _fields_ = (("family", ctypes.c_ushort), ("rest", ctypes.c_ubyte * 26))


class _InterfaceEntry(ctypes.Structure):
    """struct ifaddrs, as far as it is used."""


_InterfaceEntry._fields_ = (
    ("next", ctypes.POINTER(_InterfaceEntry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_SocketAddress)),
)


def collect_interfaces() -> "dict[str, Any]":
    """Return {name: {addresses, mtu, up}}."""
    library = ctypes.CDLL(None, use_errno=True)  # type: Any
    head = ctypes.POINTER(_InterfaceEntry)()
    if library.getifaddrs(ctypes.byref(head)):
        raise OSError(ctypes.get_errno(), "getifaddrs")
    found = {}  # type: dict[str, Any]
    entry = head
    while entry:
        one = entry.contents
        name = (one.name or b"").decode("utf-8", "replace")
        about = found.setdefault(name, {"addresses": [], "mtu": _read_mtu(name), "up": bool(one.flags & UP)})
        address = _parse_address(one.address.contents, name) if one.address else None
        if address:
            about["addresses"].append(address)
        entry = one.next
    library.freeifaddrs(head)
    return found


def _parse_address(found: "_SocketAddress", name: str) -> "str | None":
    """Return the address: after the family come the port (2 bytes), then for IPv6 flow (4) and address (16)."""
    raw = bytes(found.rest)
    if found.family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[2:6])
    if found.family == socket.AF_INET6:
        text = socket.inet_ntop(socket.AF_INET6, raw[6:22])
        return f"{text}%{name}" if text.startswith("fe80") else text
    return None


def _read_mtu(name: str) -> "int | None":
    try:
        return int((SYS / name / "mtu").read_text())
    except (OSError, ValueError):
        return None

"""What the agent's answers should be; whatever else a host says raises, and the host is left out."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.fleet.peers.pairing import Way
from envcheck.fleet.peers.rdma import Has, Port

LIMIT = 4096  # of anything that is listed
DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")  # it becomes a word of a command


@dataclass(frozen=True)
class About:
    """What a host's agent says of itself; `address` is where the others reach it, on whose interface `mtu` is."""

    hostname: str
    address: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    hccn: bool = False


@dataclass(frozen=True)
class Opened:
    """`data` is the port for what is measured, one of `ports` where there is one."""

    ports: list[int]
    taken: Mapping[int, str]
    data: int


@dataclass(frozen=True)
class Back:
    """Whose an address is, as one host is told: its names, and the addresses to which the first of them leads."""

    names: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()


def about(said: Any) -> About:
    addresses = tuple(_address(one) for one in said["addresses"][:LIMIT])
    mtu = said["mtu"]
    return About(
        str(said["hostname"])[:253],
        _address(said["address"]),
        addresses,
        mtu if isinstance(mtu, int) and 68 <= mtu <= 65535 else None,
        said["hccn"] is True,
    )


def _address(said: Any) -> str:
    return str(ipaddress.ip_address(said if isinstance(said, str) else ""))


def opened(said: Any) -> Opened:
    taken = {_port(port): str(why)[:80] for port, why in list(said["taken"].items())[:LIMIT]}
    return Opened([_port(port) for port in said["open"][:LIMIT]], taken, _port(said["data"]))


def _port(said: Any) -> int:
    if not 0 < int(said) < 65536:
        raise ValueError("no port")
    return int(said)


def names(said: Any) -> dict[str, tuple[str, ...]]:
    return {str(name): tuple(str(one)[:64] for one in found[:64]) for name, found in list(said.items())[:LIMIT]}


def backs(said: Any) -> dict[str, Back]:
    return {
        _address(address): Back(tuple(str(one)[:253] for one in named[:64]), tuple(str(one)[:64] for one in leads[:64]))
        for address, (named, leads) in list(said.items())[:LIMIT]
    }


def knocked(said: Any) -> dict[tuple[str, int], str]:
    """(address, port) → "" or why not."""
    pairs = [(place.rpartition(":"), why) for place, why in list(said.items())[: 1 << 16]]
    return {(address, _port(port)): str(why)[:80] for (address, _, port), why in pairs}


def way(said: Any) -> Way:
    rtt, rate = float(said["rtt_s"]), float(said["rate"])
    if not (math.isfinite(rtt) and math.isfinite(rate) and rtt >= 0 and rate >= 0):
        raise ValueError("no figures")
    return Way(rtt, rate)


def passed(said: Any) -> tuple[bool, bool]:
    return said["small"] is True, said["full"] is True


def pinged(said: Any) -> dict[int, tuple[int | None, str]]:
    """The tool's status and words by card."""
    told = {int(number): one for number, one in list(said.items())[:LIMIT]}
    return {
        number: (code if isinstance(code, int) else None, str(text)[:2000]) for number, (code, text) in told.items()
    }


def rdma(said: Any) -> Has:
    ports = tuple(_rdma_port(one) for one in said["ports"][:LIMIT])
    variables = {str(name)[:64]: str(value)[:256] for name, value in list(said["variables"].items())[:16]}
    return Has(tuple(str(one)[:64] for one in said["tools"][:LIMIT]), ports, variables)


def _rdma_port(said: Any) -> Port:
    device, number = str(said["device"]), int(said["port"])
    if not DEVICE.fullmatch(device) or not 0 < number < 256:
        raise ValueError("no device")
    gids = {int(n): (str(kind)[:64], str(gid)[:64]) for n, (kind, gid) in list(said["gids"].items())[:LIMIT]}
    state, layer, rate, kind = (str(said[name])[:64] for name in ("state", "layer", "rate", "kind"))
    return Port(device, number, state, layer, rate, {n: both for n, both in gids.items() if 0 <= n < 256}, kind)


def listening(said: Any) -> dict[str, int]:
    """Each tool's port by its key; 0 for one that had ended."""
    return {str(key): port and _port(port) for key, port in list(said.items())[:LIMIT]}


def tools(said: Any) -> dict[str, tuple[int | None, str]]:
    """Each tool's status and words by its key."""
    told = list(said.items())[:LIMIT]
    return {str(key): (one[0] if isinstance(one[0], int) else None, str(one[1])[: 1 << 14]) for key, one in told}


def heard(said: Any) -> dict[str, tuple[str, bool]]:
    """The words of each that listened, by its key, and whether anybody came to its port."""
    return {key: (text, said[key][2] is True) for key, (_, text) in tools(said).items()}

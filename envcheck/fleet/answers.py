"""What the agent's answers should be; whatever else a host says raises, and the host is left out."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.fleet.paired import Way

LIMIT = 4096  # of anything that is listed


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

"""Decode the agent's answers; anything unexpected raises, and the host is excluded."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.fleet.peers.pairing import PairSpeed
from envcheck.fleet.peers.rdma_tools import RdmaDevicePort, RdmaInventory

LIMIT = 4096  # items of any list
DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")  # used as a command argument


@dataclass(frozen=True)
class AgentInfo:
    """What a host's agent reports; `address` is where others reach it, `mtu` is of that interface."""

    hostname: str
    address: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    hccn: bool = False


@dataclass(frozen=True)
class OpenedPorts:
    """The opened `ports` and why others failed; `data` is the port for measurements, one of `ports` if there is any."""

    ports: list[int]
    taken: Mapping[int, str]
    data: int


@dataclass(frozen=True)
class ReverseName:
    """The reverse lookup of an address on one host: its names, and the addresses of the first name."""

    names: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()


def read_about(answer: Any) -> AgentInfo:
    """Decode the answer to "about"."""
    addresses = tuple(_read_address(one) for one in answer["addresses"][:LIMIT])
    mtu = answer["mtu"]
    return AgentInfo(
        str(answer["hostname"])[:253],
        _read_address(answer["address"]),
        addresses,
        mtu if isinstance(mtu, int) and 68 <= mtu <= 65535 else None,
        answer["hccn"] is True,
    )


def _read_address(answer: Any) -> str:
    return str(ipaddress.ip_address(answer if isinstance(answer, str) else ""))


def read_opened(answer: Any) -> OpenedPorts:
    """Decode the answer to "listen"."""
    taken = {_read_port(port): str(why)[:80] for port, why in list(answer["taken"].items())[:LIMIT]}
    return OpenedPorts([_read_port(port) for port in answer["open"][:LIMIT]], taken, _read_port(answer["data"]))


def _read_port(answer: Any) -> int:
    if not 0 < int(answer) < 65536:
        raise ValueError("no port")
    return int(answer)


def read_names(answer: Any) -> dict[str, tuple[str, ...]]:
    """Decode the answer to "resolve": addresses by name."""
    return {str(name): tuple(str(one)[:64] for one in found[:64]) for name, found in list(answer.items())[:LIMIT]}


def read_reverse_names(answer: Any) -> dict[str, ReverseName]:
    """Decode the answer to "reverse": names by address."""
    return {
        _read_address(address): ReverseName(
            tuple(str(one)[:253] for one in named[:64]), tuple(str(one)[:64] for one in leads[:64])
        )
        for address, (named, leads) in list(answer.items())[:LIMIT]
    }


def read_knocks(answer: Any) -> dict[tuple[str, int], str]:
    """Decode the answer to "knock": (address, port) → "" or why not."""
    pairs = [(place.rpartition(":"), why) for place, why in list(answer.items())[: 1 << 16]]
    return {(address, _read_port(port)): str(why)[:80] for (address, _, port), why in pairs}


def read_speed(answer: Any) -> PairSpeed:
    """Decode the answer to "measure"."""
    rtt, rate = float(answer["rtt_s"]), float(answer["rate"])
    if not (math.isfinite(rtt) and math.isfinite(rate) and rtt >= 0 and rate >= 0):
        raise ValueError("no figures")
    return PairSpeed(rtt, rate)


def read_packets(answer: Any) -> tuple[bool, bool]:
    """Decode the answer to "packets": whether small and full-size packets arrive."""
    return answer["small"] is True, answer["full"] is True


def read_pings(answer: Any) -> dict[int, tuple[int | None, str]]:
    """Decode the answer to "hccn": the tool's status and output by card."""
    items = {int(number): one for number, one in list(answer.items())[:LIMIT]}
    return {
        number: (code if isinstance(code, int) else None, str(text)[:2000]) for number, (code, text) in items.items()
    }


def read_rdma(answer: Any) -> RdmaInventory:
    """Decode the answer to "rdma"."""
    ports = tuple(_read_rdma_port(one) for one in answer["ports"][:LIMIT])
    variables = {str(name)[:64]: str(value)[:256] for name, value in list(answer["variables"].items())[:16]}
    return RdmaInventory(tuple(str(one)[:64] for one in answer["tools"][:LIMIT]), ports, variables)


def _read_rdma_port(answer: Any) -> RdmaDevicePort:
    device, number = str(answer["device"]), int(answer["port"])
    if not DEVICE.fullmatch(device) or not 0 < number < 256:
        raise ValueError("no device")
    gids = {int(n): (str(kind)[:64], str(gid)[:64]) for n, (kind, gid) in list(answer["gids"].items())[:LIMIT]}
    state, layer, rate, kind = (str(answer[name])[:64] for name in ("state", "layer", "rate", "kind"))
    return RdmaDevicePort(
        device, number, state, layer, rate, {n: both for n, both in gids.items() if 0 <= n < 256}, kind
    )


def read_listening_ports(answer: Any) -> dict[str, int]:
    """Decode the ports of started listeners by key; 0 for one that has ended."""
    return {str(key): port and _read_port(port) for key, port in list(answer.items())[:LIMIT]}


def read_tool_results(answer: Any) -> dict[str, tuple[int | None, str]]:
    """Decode each tool's status and output by key."""
    items = list(answer.items())[:LIMIT]
    return {str(key): (one[0] if isinstance(one[0], int) else None, str(one[1])[: 1 << 14]) for key, one in items}


def read_listener_results(answer: Any) -> dict[str, tuple[str, bool]]:
    """Decode each listener's output by key, and whether a client connected."""
    return {key: (text, answer[key][2] is True) for key, (_, text) in read_tool_results(answer).items()}

"""Which RDMA ports two hosts try against each other, by which tool, and how that is called."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.checks.host.rdma import GID, HCAS, chosen
from probes.host import network_schemas

ACTIVE, ETHERNET, INFINIBAND = "ACTIVE", "Ethernet", "InfiniBand"
CA = "CA"  # InfiniBand's and RoCE's; RNIC (iWARP) and others' (EFA) have other ways to connect, which NCCL's verbs lack
PORTS_LIMIT = 16  # of a host, tried at once
WRITES, TIMES = "1000", "200"  # messages of 64 KiB, and small ones


@dataclass(frozen=True)
class Port:
    """`rate` as the kernel has it: `100 Gb/sec (4X EDR)`; `gids`: index → (type, address)."""

    device: str
    number: int
    state: str = ACTIVE
    layer: str = INFINIBAND
    rate: str = ""
    gids: Mapping[int, tuple[str, str]] = field(default_factory=dict, hash=False)
    kind: str = CA


@dataclass(frozen=True)
class Has:
    """What a host has of RDMA: its tools, its ports, the variables that choose among them."""

    tools: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class End:
    """A host's port, by the address at which it is met: `gid` is None where an address is not asked for."""

    host: str
    port: Port
    gid: int | None = None

    @property
    def name(self) -> str:
        return f"{self.port.device} port {self.port.number}{'' if self.gid is None else f' GID {self.gid}'}"


@dataclass(frozen=True)
class Tool:
    """`by_tcp`: its two sides meet by TCP, at the hosts' own addresses; else by those of the ports."""

    package: str
    by_tcp: bool = True


# The first that both sides have is taken.  All take the same options in perftest 4.5 and rdma-core 44, and before.
TOOLS = {
    "ib_write_bw": Tool("perftest"),
    "ib_send_lat": Tool("perftest"),
    "ib_read_lat": Tool("perftest"),
    "ibv_rc_pingpong": Tool("ibverbs-utils"),
    "rping": Tool("rdmacm-utils", by_tcp=False),
}


@dataclass(frozen=True)
class Try:
    """From one port to another, by one tool."""

    tool: str
    a: End
    b: End


def ends(host: str, has: Has) -> list[End]:
    """The active ports that the variables leave, with the address that NCCL takes: the one that is named, else RoCE v2
    of an IPv4 address, else any RoCE v2, else the first."""
    value = next((has.variables[name] for name in HCAS if has.variables.get(name)), "")
    seen = {one.device: ("", {p.number: network_schemas.Port(p.state) for p in has.ports if p.device == one.device})
            for one in has.ports}  # fmt: skip
    wanted = chosen(network_schemas.Rdma(seen), value)
    live = [
        port
        for port in has.ports
        if port.kind in (CA, "") and port.state == ACTIVE and (port.device, port.number) in wanted
    ]
    return [End(host, port, _gid(port, has.variables.get(GID, ""))) for port in live[:PORTS_LIMIT]]


def _gid(port: Port, said: str) -> int | None:
    if port.layer != ETHERNET or not port.gids:
        return None
    if said.isdecimal() and int(said) in port.gids:
        return int(said)
    return min(port.gids, key=lambda n: (_type(port, n) != "RoCE v2", address(port, n) is None, n))


def _type(port: Port, index: int) -> str:
    return port.gids[index][0]


def address(port: Port, index: int | None) -> str | None:
    """The IPv4 address that an address of RoCE holds."""
    if index is None or index not in port.gids:
        return None
    try:
        mapped = ipaddress.IPv6Address(port.gids[index][1]).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped else None


def tries(a: Has, b: Has, ends_a: Sequence[End], ends_b: Sequence[End]) -> list[Try]:
    """Ports of the same name with each other, as rails are cabled; then the others of the same kind in order."""
    there = {(end.port.device, end.port.number): end for end in ends_b}
    pairs = [(end, met) for end in ends_a if (met := there.get((end.port.device, end.port.number))) and _like(end, met)]
    left = [end for end in ends_b if end not in [met for _, met in pairs]]
    for end in [end for end in ends_a if end not in [one for one, _ in pairs]]:
        if met := next((one for one in left if _like(end, one)), None):
            left.remove(met)
            pairs.append((end, met))
    return [Try(tool, *pair) for pair in pairs if (tool := common(a, b, pair[1]))]


def _like(a: End, b: End) -> bool:
    return a.port.layer == b.port.layer


def common(a: Has, b: Has, met: End) -> str | None:
    """rping wants an address of the port that is known here: RoCE's."""
    usable = (name for name, tool in TOOLS.items() if tool.by_tcp or address(met.port, met.gid))
    return next((name for name in usable if name in a.tools and name in b.tools), None)


def listens(one: Try) -> list[str]:
    """PORT stands for the one that the host finds free."""
    if one.tool == "rping":
        return ["rping", "-s", "-a", address(one.b.port, one.b.gid) or "", "-p", "PORT", "-v", "-C", "5"]
    return [one.tool, *_options(one, one.b, "PORT")]


def calls(one: Try, where: str, port: int) -> list[str]:
    if one.tool == "rping":
        return ["rping", "-c", "-a", address(one.b.port, one.b.gid) or "", "-p", str(port), "-v", "-C", "5"]
    return [one.tool, *_options(one, one.a, str(port)), where]


def _options(one: Try, end: End, port: str) -> list[str]:
    """-F: a processor that saves power is no reason to stop."""
    of_gid = "-g" if one.tool == "ibv_rc_pingpong" else "-x"
    gid = [] if end.gid is None else [of_gid, str(end.gid)]
    more = {"ib_write_bw": ["-n", WRITES, "-F", "--report_gbits"], "ibv_rc_pingpong": ["-n", TIMES]}
    rest = more.get(one.tool, ["-n", TIMES, "-F"])
    return ["-d", end.port.device, "-i", str(end.port.number), *gid, "-p", port, *rest]

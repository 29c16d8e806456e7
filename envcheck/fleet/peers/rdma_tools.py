"""Which RDMA ports of two hosts to test against each other, with which tool, and its command line."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.checks.host.rdma_ports import GID, HCAS, select_ports
from probes.host import network_schemas

ACTIVE, ETHERNET, INFINIBAND = "ACTIVE", "Ethernet", "InfiniBand"
CA = "CA"  # InfiniBand and RoCE; RNIC (iWARP) and EFA connect in other ways, which NCCL's verbs do not support
PORTS_LIMIT = 16  # ports of a host tested at once
WRITES, TIMES = "1000", "200"  # messages of 64 KiB, and small ones


@dataclass(frozen=True)
class RdmaDevicePort:
    """`rate` is the kernel's text: `100 Gb/sec (4X EDR)`; `gids`: index → (type, address)."""

    device: str
    number: int
    state: str = ACTIVE
    layer: str = INFINIBAND
    rate: str = ""
    gids: Mapping[int, tuple[str, str]] = field(default_factory=dict, hash=False)
    kind: str = CA


@dataclass(frozen=True)
class RdmaInventory:
    """A host's RDMA tools and ports, and the variables that select ports."""

    tools: tuple[str, ...] = ()
    ports: tuple[RdmaDevicePort, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RdmaEndpoint:
    """A host's port and its address; `gid` is None where no GID is needed."""

    host: str
    port: RdmaDevicePort
    gid: int | None = None

    @property
    def name(self) -> str:
        """The port as shown to the user."""
        return f"{self.port.device} port {self.port.number}{'' if self.gid is None else f' GID {self.gid}'}"


@dataclass(frozen=True)
class RdmaTool:
    """`by_tcp`: both sides connect by TCP to the hosts' addresses, else to those of the ports."""

    package: str
    by_tcp: bool = True


# The first common tool is used.  Options are the same in perftest up to 4.5 and rdma-core up to 44.
TOOLS = {
    "ib_write_bw": RdmaTool("perftest"),
    "ib_send_lat": RdmaTool("perftest"),
    "ib_read_lat": RdmaTool("perftest"),
    "ibv_rc_pingpong": RdmaTool("ibverbs-utils"),
    "rping": RdmaTool("rdmacm-utils", by_tcp=False),
}


@dataclass(frozen=True)
class RdmaTrial:
    """A test from one port to another with one tool."""

    tool: str
    a: RdmaEndpoint
    b: RdmaEndpoint


def list_endpoints(host: str, has: RdmaInventory) -> list[RdmaEndpoint]:
    """Return the active ports that the variables allow, with the GID that NCCL uses: the configured one, else RoCE v2
    of an IPv4 address, else any RoCE v2, else the first.
    """
    value = next((has.variables[name] for name in HCAS if has.variables.get(name)), "")
    seen = {one.device: ("", {p.number: network_schemas.RdmaPortState(p.state)
                              for p in has.ports if p.device == one.device})
            for one in has.ports}  # fmt: skip
    wanted = select_ports(network_schemas.RdmaDevices(seen), value)
    live = [
        port
        for port in has.ports
        if port.kind in (CA, "") and port.state == ACTIVE and (port.device, port.number) in wanted
    ]
    return [RdmaEndpoint(host, port, _choose_gid(port, has.variables.get(GID, ""))) for port in live[:PORTS_LIMIT]]


def _choose_gid(port: RdmaDevicePort, wanted: str) -> int | None:
    if port.layer != ETHERNET or not port.gids:
        return None
    if wanted.isdecimal() and int(wanted) in port.gids:
        return int(wanted)
    return min(port.gids, key=lambda n: (_get_gid_type(port, n) != "RoCE v2", find_ipv4_address(port, n) is None, n))


def _get_gid_type(port: RdmaDevicePort, index: int) -> str:
    return port.gids[index][0]


def find_ipv4_address(port: RdmaDevicePort, index: int | None) -> str | None:
    """Return the IPv4 address in a RoCE GID."""
    if index is None or index not in port.gids:
        return None
    try:
        mapped = ipaddress.IPv6Address(port.gids[index][1]).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped else None


def plan_trials(
    a: RdmaInventory, b: RdmaInventory, ends_a: Sequence[RdmaEndpoint], ends_b: Sequence[RdmaEndpoint]
) -> list[RdmaTrial]:
    """Pair ports of the same name, as rails are cabled; then the others of the same kind in order."""
    there = {(end.port.device, end.port.number): end for end in ends_b}
    pairs = [
        (end, met)
        for end in ends_a
        if (met := there.get((end.port.device, end.port.number))) and _is_same_layer(end, met)
    ]
    left = [end for end in ends_b if end not in [met for _unused, met in pairs]]
    for end in [end for end in ends_a if end not in [one for one, _unused in pairs]]:
        if met := next((one for one in left if _is_same_layer(end, one)), None):
            left.remove(met)
            pairs.append((end, met))
    return [RdmaTrial(tool, *pair) for pair in pairs if (tool := find_common_tool(a, b, pair[1]))]


def _is_same_layer(a: RdmaEndpoint, b: RdmaEndpoint) -> bool:
    return a.port.layer == b.port.layer


def find_common_tool(a: RdmaInventory, b: RdmaInventory, met: RdmaEndpoint) -> str | None:
    """Return the first common tool; rping needs a known address of the port, which only RoCE has."""
    usable = (name for name, tool in TOOLS.items() if tool.by_tcp or find_ipv4_address(met.port, met.gid))
    return next((name for name in usable if name in a.tools and name in b.tools), None)


def build_listen_command(one: RdmaTrial) -> list[str]:
    """Return the listener's command; PORT stands for a port that the host chooses."""
    if one.tool == "rping":
        return ["rping", "-s", "-a", find_ipv4_address(one.b.port, one.b.gid) or "", "-p", "PORT", "-v", "-C", "5"]
    return [one.tool, *_build_options(one, one.b, "PORT")]


def build_call_command(one: RdmaTrial, where: str, port: int) -> list[str]:
    """Return the client's command."""
    if one.tool == "rping":
        return ["rping", "-c", "-a", find_ipv4_address(one.b.port, one.b.gid) or "", "-p", str(port), "-v", "-C", "5"]
    return [one.tool, *_build_options(one, one.a, str(port)), where]


def _build_options(one: RdmaTrial, end: RdmaEndpoint, port: str) -> list[str]:
    """Return common options; -F: do not stop because of CPU frequency scaling."""
    of_gid = "-g" if one.tool == "ibv_rc_pingpong" else "-x"
    gid = [] if end.gid is None else [of_gid, str(end.gid)]
    more = {"ib_write_bw": ["-n", WRITES, "-F", "--report_gbits"], "ibv_rc_pingpong": ["-n", TIMES]}
    rest = more.get(one.tool, ["-n", TIMES, "-F"])
    return ["-d", end.port.device, "-i", str(end.port.number), *gid, "-p", port, *rest]

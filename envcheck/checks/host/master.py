"""The address by which the launchers of several nodes meet, where variables say it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_machine
from envcheck.core.derived.ports import decimal
from envcheck.core.facts import Facts, Network
from envcheck.core.findings import fail, nodes_wanted, not_told, ok, skip, unknown, warn
from envcheck.core.model import Finding


def master(facts: Facts) -> Iterator[Finding]:
    """MASTER_ADDR or PADDLE_MASTER names a host that several nodes can reach, and this one where it leads."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    name = next((n for n in ("MASTER_ADDR", "PADDLE_MASTER") if facts.environment.get(n)), "")
    if not name:
        yield skip("neither is set")
        return
    value = facts.environment[name]
    host = _host(value)
    several, shown = _nodes(facts) > 1, (f"environment: {name}={value[:80]}",)
    look = "ip -brief address"
    where = _literal(host)
    if where is None and host != "localhost":
        yield _by_name(facts, name, host)
    elif where is not None and (where.packed[0] in (0, 255) or where.is_multicast or where.is_unspecified):
        words = "Set node 0's own address, the same on each node."
        yield fail(f"{name}={value[:80]} is no host's address", words, look, evidence=shown)
    elif host == "localhost" or (where is not None and where.is_loopback):
        words = "Set node 0's own address: each node would wait for itself."
        seen = f"{name}={value[:80]} is this host alone"
        yield fail(f"{seen}, with {_nodes(facts)} nodes", words, look, evidence=shown) if several else ok(seen)
    elif facts.network is None:
        yield not_told(facts, "ask network")
    elif _leads(facts) and not _own(facts.network, str(where)):
        words = "Set an address of this host, which is told to be node 0, or give this node its own rank."
        yield warn(f"{name}={value[:80]} is none of this host's addresses", words, look, evidence=shown)
    else:
        yield ok(f"{name}={value[:80]}")


def _host(value: str) -> str:
    """Of `host`, `host:port`, `http://[address]:port`, or a bare IPv6 address."""
    rest = re.sub(r"^[a-z]+://", "", value.strip())
    if bracketed := re.match(r"\[([^\]]*)\]", rest):
        return bracketed[1]
    return rest if rest.count(":") > 1 else rest.partition(":")[0]


def _by_name(facts: Facts, variable: str, host: str) -> Finding:
    own = facts.host.hostname if facts.host else None
    if own and host in (own, own.partition(".")[0]):
        return ok(f"{variable} is this host's own name; network.own_name tells where it leads")
    words = "See where the name leads; train tries it when the nodes meet."
    return unknown(f"{variable}={host[:80]}: where it leads was not asked", words, f"getent hosts {host[:80]}")


def _nodes(facts: Facts) -> int:
    said = [decimal((facts.environment or {}).get(n, "")) or 1 for n in ("NNODES", "PADDLE_NNODES")]
    return max(nodes_wanted(facts), *said)


def _leads(facts: Facts) -> bool:
    names = ("NODE_RANK", "GROUP_RANK", "RANK", "PADDLE_TRAINER_ID")
    return next((value for n in names if (value := (facts.environment or {}).get(n))), "") == "0"


def _own(network: Network, address: str) -> bool:
    known = {a.partition("%")[0] for i in network.interfaces.values() for a in i.addresses}
    return address in known | set(network.resolves_to or ())


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


CHECKS: tuple[Check, ...] = (
    of_machine(
        "network.master",
        master,
        reads="MASTER_ADDR, PADDLE_MASTER, NNODES, ranks, interfaces",
        source="LlamaFactory#3715",
        rule="FAIL for no host's address, and loopback with several nodes; WARN when node 0 is here and has another",
        fix="Node 0's own address.",
    ),
)

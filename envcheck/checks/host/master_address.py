"""The check of the master address in MASTER_ADDR or PADDLE_MASTER."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from envcheck.core.check import Check, machine_check
from envcheck.core.derived.collective_ports import parse_decimal
from envcheck.core.facts import Facts, Network
from envcheck.core.findings import count_requested_nodes, fail, ok, report_unanswered, skip, unknown, warn
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Finding, diagnose


def check_master(facts: Facts) -> Iterator[Finding]:
    """MASTER_ADDR or PADDLE_MASTER is an address of node 0 that the other nodes can reach."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    name = next((n for n in ("MASTER_ADDR", "PADDLE_MASTER") if facts.environment.get(n)), "")
    if not name:
        yield skip(_("neither is set"))
        return
    value = facts.environment[name]
    host = _parse_host(value)
    several, shown = _requested_node_count(facts) > 1, (f"environment: {name}={value[:80]}",)
    look = "ip -brief address"
    where = _parse_ip_address(host)
    if where is None and host != "localhost":
        yield _check_host_name(facts, name, host)
    elif where is not None and (where.packed[0] in (0, 255) or where.is_multicast or where.is_unspecified):
        words = _("Set the address of node 0, the same on every node.")
        yield fail(
            _("{variable}={value} is not a host address", variable=name, value=value[:80]),
            diagnose(words, look),
            evidence=shown,
        )
    elif host == "localhost" or (where is not None and where.is_loopback):
        words = _("Set the address of node 0: with a loopback address each node waits for itself.")
        seen = _("{variable}={value} is a loopback address", variable=name, value=value[:80])
        yield (
            fail(
                _("{seen}, but the job has {nodes} nodes", seen=seen, nodes=_requested_node_count(facts)),
                diagnose(words, look),
                evidence=shown,
            )
            if several
            else ok(seen)
        )
    elif facts.network is None:
        yield report_unanswered(facts, "ask network")
    elif _is_master_node(facts) and not _is_own_address(facts.network, str(where)):
        words = _("Set an address of this host, which is configured as node 0, or give this node another rank.")
        yield warn(
            _("{variable}={value} is not an address of this host", variable=name, value=value[:80]),
            diagnose(words, look),
            evidence=shown,
        )
    else:
        yield ok(verbatim(f"{name}={value[:80]}"))


def _parse_host(value: str) -> str:
    """The host in `host`, `host:port`, `http://[address]:port`, or a bare IPv6 address."""
    rest = re.sub(r"^[a-z]+://", "", value.strip())
    if bracketed := re.match(r"\[([^\]]*)\]", rest):
        return bracketed[1]
    return rest if rest.count(":") > 1 else rest.partition(":")[0]


def _check_host_name(facts: Facts, variable: str, host: str) -> Finding:
    own = facts.host.hostname if facts.host else None
    if own and host in (own, own.partition(".")[0]):
        return ok(_("{variable} is this host's own name; see network.own_name", variable=variable))
    words = _("Check which address the name resolves to; `envcheck train` tries it when the nodes connect.")
    return unknown(
        _("{variable}={host}: the name was not resolved", variable=variable, host=host[:80]),
        diagnose(words, f"getent hosts {host[:80]}"),
    )


def _requested_node_count(facts: Facts) -> int:
    said = [parse_decimal((facts.environment or {}).get(n, "")) or 1 for n in ("NNODES", "PADDLE_NNODES")]
    return max(count_requested_nodes(facts), *said)


def _is_master_node(facts: Facts) -> bool:
    names = ("NODE_RANK", "GROUP_RANK", "RANK", "PADDLE_TRAINER_ID")
    return next((value for n in names if (value := (facts.environment or {}).get(n))), "") == "0"


def _is_own_address(network: Network, address: str) -> bool:
    known = {a.partition("%")[0] for i in network.interfaces.values() for a in i.addresses}
    return address in known | set(network.resolves_to or ())


def _parse_ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


CHECKS: tuple[Check, ...] = (
    machine_check(
        "network.master",
        check_master,
        reads="MASTER_ADDR, PADDLE_MASTER, NNODES, ranks, interfaces",
        source="LlamaFactory#3715",
        rule=(
            "FAIL for an invalid address, and for loopback with several nodes; WARN if this is node 0 and it has "
            "another address"
        ),
        fix="Set it to the address of node 0.",
    ),
)

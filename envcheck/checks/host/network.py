"""The devices' own network ports (HCCN), and the host's name and interfaces: what collectives set up over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_machine
from envcheck.core.facts import Facts, Network
from envcheck.core.findings import (
    fail,
    figures,
    graded,
    nodes_wanted,
    not_told,
    ok,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Status

IFNAMES = ("HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FLAGCX_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
LOOPBACK = re.compile(r"^(127\.|::1$|localhost$)")


def own_name(facts: Facts) -> Iterator[Finding]:
    """The host's own name does not lead to loopback: peers would be told 127.0.0.1."""
    if facts.network is None:
        yield not_told(facts, "ask network")
        return
    name, addresses = (facts.host and facts.host.hostname) or "the own name", facts.network.resolves_to
    several = nodes_wanted(facts) > 1
    if addresses is None:
        words = "Add the host to /etc/hosts, or pass --host: several nodes find each other by it."
        yield graded(
            Status.FAIL if several else Status.WARN,
            f"{name} resolves to nothing",
            words,
            "getent hosts $(hostname)",
            evidence=figures("getaddrinfo", **{name: "nothing"}),
        )
    elif addresses and all(LOOPBACK.match(a) for a in addresses):
        seen = f"{name} resolves to {', '.join(addresses)}"
        words = (
            "Put the real address first in /etc/hosts, or pass --host: a launch over several nodes would wait for ever."
        )
        look, shown = ("getent hosts $(hostname)", "ip -brief address"), figures("getaddrinfo", **{name: addresses[0]})
        if several:
            yield fail(seen, words, *look, evidence=shown)
        elif facts.vendors:
            yield warn(seen, words, *look, evidence=shown)
        else:
            yield ok(f"{seen}: enough for one node")
    elif addresses:
        yield ok(f"{name} resolves to {', '.join(addresses[:3])}")
    else:
        yield unknown("the name's addresses could not be read")


def interfaces(facts: Facts) -> Iterator[Finding]:
    """A network interface besides loopback is up and has an address."""
    if facts.network is None or not facts.network.interfaces:
        yield not_told(facts, "ask network")
        return
    usable = [name for name, i in facts.network.interfaces.items() if i.up and _outside(facts.network, name)]
    if usable:
        yield ok(f"up with an address: {', '.join(usable[:4])}{' ...' if len(usable) > 4 else ''}")
    elif nodes_wanted(facts) > 1:
        words, shown = "Bring one up: several nodes need it.", _all_interfaces(facts.network)
        yield fail("no interface is up with an address", words, "ip -brief address", evidence=shown)
    elif all(i.up is None for i in facts.network.interfaces.values()):
        yield unknown("no interface says whether it is up")
    else:
        words, shown = "Bring one up: downloads and other nodes need it.", _all_interfaces(facts.network)
        yield warn("no interface besides loopback is up", words, "ip -brief address", evidence=shown)


def named_interfaces(facts: Facts) -> Iterator[Finding]:
    """The interfaces that *_SOCKET_IFNAME names are there."""
    if facts.environment is None or facts.network is None:
        yield not_told(facts, "ask environment", "ask network")
        return
    asked = {name: facts.environment[name] for name in IFNAMES if name in facts.environment}
    wrong = [f"{name}={value}" for name, value in asked.items() if not _names_one(value, facts.network)]
    if wrong:
        shown = (f"environment: {wrong[0]}", *_all_interfaces(facts.network))
        yield fail(
            f"{wrong[0]}: there is no such interface", "Name one of this host's.", "ip -brief address", evidence=shown
        )
    elif asked:
        yield ok(", ".join(f"{name}={value}" for name, value in asked.items()))
    else:
        yield skip("no *_SOCKET_IFNAME is set")


def _all_interfaces(network: Network) -> tuple[str, ...]:
    return figures("interfaces", **{name: "up" if i.up else "down" for name, i in network.interfaces.items()})


def _outside(network: Network, name: str) -> bool:
    return any(not LOOPBACK.match(a) for a in network.interfaces[name].addresses)


def _names_one(value: str, network: Network) -> bool:
    """NCCL's rules: a list of prefixes, = for exact names, ^ for exclusions."""
    if value.startswith("^"):
        return True
    exact, names = value.startswith("="), value.lstrip("=").split(",")
    return any(
        there == name if exact else there.startswith(name) for there in network.interfaces for name in names if name
    )


CHECKS: tuple[Check, ...] = (
    of_machine(
        "network.own_name",
        own_name,
        reads="the own name's addresses",
        source="vllm#7074; paddle.distributed.launch, tried",
        rule="WARN when the name leads to loopback or nowhere and cards are there; FAIL with several nodes wanted",
        fix="/etc/hosts, or --host.",
    ),
    of_machine(
        "network.interfaces",
        interfaces,
        reads="network interfaces",
        source="FlagCX#503",
        rule="WARN when none is up with an address; FAIL with several nodes wanted",
        fix="Bring one up.",
    ),
    of_machine(
        "network.named_interfaces",
        named_interfaces,
        reads="*_SOCKET_IFNAME, interfaces",
        source="NCCL and FlagCX manuals",
        rule="FAIL when no interface has the name",
        fix="Name one of this host's.",
    ),
)

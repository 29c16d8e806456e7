"""Checks of the host name and the network interfaces, which collective communication uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, machine_check
from envcheck.core.facts import Facts, Network
from envcheck.core.findings import (
    count_requested_nodes,
    fail,
    ok,
    quote_values,
    report_unanswered,
    skip,
    unknown,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, mark
from envcheck.core.model import Finding, Status, diagnose, fix

LOOPBACK = re.compile(r"^(127\.|::1$|localhost$)")


def check_own_name(facts: Facts) -> Iterator[Finding]:
    """The host name does not resolve to loopback; otherwise peers receive 127.0.0.1."""
    if facts.network is None:
        yield report_unanswered(facts, "ask network")
        return
    name, addresses = (facts.host and facts.host.hostname) or _("the host name"), facts.network.resolves_to
    several = count_requested_nodes(facts) > 1
    if addresses is None:
        words = _("Add this host to /etc/hosts, or pass --host: nodes use the host name to find each other.")
        yield warn_or_fail(
            Status.FAIL if several else Status.WARN,
            _("{name} does not resolve to an address", name=name),
            fix(words, f"echo 'ADDRESS {name}' | sudo tee -a /etc/hosts", "ip -brief address"),
            evidence=quote_values("getaddrinfo", **{name: "nothing"}),
        )
    elif addresses and all(LOOPBACK.match(a) for a in addresses):
        seen = _("{name} resolves to {addresses}", name=name, addresses=join(", ", addresses))
        words = _("Put the real address first in /etc/hosts, or pass --host: a multi-node launch hangs otherwise.")
        look, shown = (
            ("getent hosts $(hostname)", "ip -brief address"),
            quote_values("getaddrinfo", **{name: addresses[0]}),
        )
        if several:
            yield fail(seen, diagnose(words, *look), evidence=shown)
        elif facts.vendors:
            yield warn(seen, diagnose(words, *look), evidence=shown)
        else:
            yield ok(_("{seen}: sufficient for a single node", seen=seen))
    elif addresses:
        yield ok(_("{name} resolves to {addresses}", name=name, addresses=join(", ", addresses[:3])))
    else:
        yield unknown(_("cannot read the addresses of the host name"))


def check_interfaces(facts: Facts) -> Iterator[Finding]:
    """A network interface other than loopback is up and has an address."""
    if facts.network is None or not facts.network.interfaces:
        yield report_unanswered(facts, "ask network")
        return
    usable = [
        name for name, i in facts.network.interfaces.items() if i.up and _has_outside_address(facts.network, name)
    ]
    if usable:
        yield ok(
            _(
                "up with an address: {interfaces}{dots}",
                interfaces=join(", ", usable[:4]),
                dots=" ..." if len(usable) > 4 else "",
            )
        )
    elif count_requested_nodes(facts) > 1:
        words, shown = _("Bring an interface up: multi-node jobs need it."), _quote_interfaces(facts.network)
        yield fail(
            _("no network interface is up with an address"), diagnose(words, "ip -brief address"), evidence=shown
        )
    elif all(i.up is None for i in facts.network.interfaces.values()):
        yield unknown(_("no network interface reports its state"))
    else:
        words, shown = _("Bring an interface up: downloads and other nodes need it."), _quote_interfaces(facts.network)
        yield warn(
            _("no network interface except loopback is up"), diagnose(words, "ip -brief address"), evidence=shown
        )


def check_named_interfaces(facts: Facts) -> Iterator[Finding]:
    """The interfaces in *_SOCKET_IFNAME exist."""
    if facts.environment is None or facts.network is None:
        yield report_unanswered(facts, "ask environment", "ask network")
        return
    asked = {name: value for name, value in facts.environment.items() if name.endswith("_SOCKET_IFNAME")}
    wrong = [f"{name}={value}" for name, value in asked.items() if not _matches_interface(value, facts.network)]
    if wrong:
        shown = (f"environment: {wrong[0]}", *_quote_interfaces(facts.network))
        yield fail(
            _("{wrong}: no such network interface", wrong=wrong[0]),
            diagnose(_("Set a network interface of this host."), "ip -brief address"),
            evidence=shown,
        )
    elif asked:
        yield ok(join(", ", (f"{name}={value}" for name, value in asked.items())))
    else:
        yield skip(_("no *_SOCKET_IFNAME is set"))


def _quote_interfaces(network: Network) -> tuple[str, ...]:
    return quote_values("interfaces", **{name: "up" if i.up else "down" for name, i in network.interfaces.items()})


def _has_outside_address(network: Network, name: str) -> bool:
    return any(not LOOPBACK.match(a) for a in network.interfaces[name].addresses)


def _matches_interface(value: str, network: Network) -> bool:
    """NCCL's rules: a list of prefixes, = for exact names, ^ for exclusions."""
    if value.startswith("^"):
        return True
    exact, names = value.startswith("="), value.lstrip("=").split(",")
    return any(
        there == name if exact else there.startswith(name) for there in network.interfaces for name in names if name
    )


CHECKS: tuple[Check, ...] = (
    machine_check(
        "network.own_name",
        check_own_name,
        reads="addresses of the host name",
        source=mark("vllm#7074; tested with paddle.distributed.launch"),
        rule=(
            "WARN if the name resolves to loopback or not at all on a host with devices; FAIL if the job needs "
            "several nodes"
        ),
        fix="Correct /etc/hosts, or pass --host.",
    ),
    machine_check(
        "network.interfaces",
        check_interfaces,
        reads="network interfaces",
        source="FlagCX#503",
        rule="WARN if there is none; FAIL if the job needs several nodes",
        fix="Bring an interface up.",
    ),
    machine_check(
        "network.named_interfaces",
        check_named_interfaces,
        reads="*_SOCKET_IFNAME, interfaces",
        source=mark("NCCL and FlagCX manuals"),
        rule="FAIL if no interface has that name",
        fix="Set it to an interface of this host.",
    ),
)

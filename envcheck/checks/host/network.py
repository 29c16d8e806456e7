"""The devices' own network ports (HCCN), and the host's name and interfaces: what collectives set up over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import NPU, Check, of_devices, of_machine
from envcheck.core.facts import Facts, Network, VendorFacts
from envcheck.core.findings import (
    fail,
    figures,
    follows,
    graded,
    nodes_wanted,
    not_told,
    ok,
    quote,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.key_value import fields
from envcheck.core.model import Answer, Document, Finding, Outcome, Severity

CONF = "read /etc/hccn.conf"
IFNAMES = ("HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FLAGCX_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
LOOPBACK = re.compile(r"^(127\.|::1$|localhost$)")


def hccn_link(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU is up."""
    told = {n: str(said) for n, said in _said(v, "link", "link status")}
    if down := _down(v):
        seen = f"port of NPU {_ids(down)}: {', '.join(sorted(set(down.values())))}"
        words = "Look at cable, transceiver and switch port; collectives between hosts need each port."
        first = next(iter(down))
        shown = quote(facts.answers.get(f"run hccn_tool -i {first} -link -g"))
        yield fail(
            seen,
            words,
            *(f"hccn_tool -i {first} -{kind} -g" for kind in ("link", "optical", "link_stat")),
            evidence=shown,
        )
    else:
        yield ok(f"{len(told)} ports are up") if told else _no_hccn(facts, "link")


def hccn_address(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU has an address."""
    told = {n: str(said) for n, said in _said(v, "ip", "ipaddr")}
    bare = [n for n, kinds in v.per_device.items() if "ip" in kinds and _unset(kinds["ip"])]
    if bare:
        grade = Severity.FAIL if nodes_wanted(facts) > 1 else Severity.WARN
        first = bare[0]
        words = "Set one with hccn_tool -ip -s for collectives between hosts; one host alone can do without."
        fix = (f"hccn_tool -i {first} -ip -g", "cat /etc/hccn.conf")
        shown = quote(facts.answers.get(f"run hccn_tool -i {first} -ip -g"))
        yield graded(grade, f"port of NPU {_ids(bare)}: no address", words, *fix, evidence=shown)
    elif len(set(told.values())) < len(told):
        twice = next(said for said in told.values() if list(told.values()).count(said) > 1)
        both = [n for n, said in told.items() if said == twice]
        shown = quote(facts.answers.get(f"run hccn_tool -i {both[-1]} -ip -g"), twice)
        seen = f"ports of NPU {_ids(both)} have the same address {twice}"
        yield fail(seen, "Give each its own.", "cat /etc/hccn.conf", evidence=shown)
    else:
        yield ok(f"{len(told)} ports have addresses") if told else _no_hccn(facts, "ip")


def hccn_health(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU reaches the address that it watches."""
    told = {n: str(said) for n, said in _said(v, "net_health", "net health status")}
    bad, down = {n: said for n, said in told.items() if said.lower() not in ("success", "init")}, _down(v)
    for cause in ("", "network.hccn_link"):
        if some := {n: said for n, said in bad.items() if (n in down) == bool(cause)}:
            yield told_by(cause, _unreached(facts, some))
    if not bad:
        yield ok(f"{len(told)} ports reach what they watch") if told else _no_hccn(facts, "net_health")


def _unreached(facts: Facts, bad: dict[int, str]) -> Finding:
    grade = Severity.FAIL if nodes_wanted(facts) > 1 else Severity.WARN
    first = next(iter(bad))
    words = "Look at gateway, VLAN and switch: the watched address (netdetect) does not answer."
    shown = quote(facts.answers.get(f"run hccn_tool -i {first} -net_health -g"))
    seen = f"port of NPU {_ids(bad)}: {', '.join(sorted(set(bad.values())))}"
    return graded(grade, seen, words, f"hccn_tool -i {first} -netdetect -g", "cat /etc/hccn.conf", evidence=shown)


def _down(v: VendorFacts) -> dict[int, str]:
    """The ports that say of themselves that they are not up."""
    return {n: str(said) for n, said in _said(v, "link", "link status") if str(said).upper() != "UP"}


def hccn_conf(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """/etc/hccn.conf says the addresses that the ports have: it is what a reboot brings back."""
    answer = facts.answers.get(CONF)
    live = {n: str(said) for n, said in _said(v, "ip", "ipaddr")}
    if answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        absent = answer is not None and answer.outcome is Outcome.ABSENT
        yield skip("there is no /etc/hccn.conf") if absent else not_told(facts, CONF)
        return
    kept = {int(m[1]): m[2] for m in re.finditer(r"^\s*address_(\d{1,4})\s*=\s*(\S+)", answer.out, re.MULTILINE)}
    other = [n for n, address in live.items() if n in kept and kept[n] != address]
    if other:
        seen = f"NPU {_ids(other)}: the port has {live[other[0]]}, the file says {kept[other[0]]}"
        yield warn(
            seen,
            "Make them one; the file wins at the next boot.",
            "cat /etc/hccn.conf",
            evidence=quote(answer, f"address_{other[0]}"),
        )
    elif live and kept:
        yield ok("/etc/hccn.conf and the ports agree")
    else:
        yield unknown("nothing to compare: file or ports name no address")


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
            Severity.FAIL if several else Severity.WARN,
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


def _said(v: VendorFacts, kind: str, key: str) -> Iterator[tuple[int, object]]:
    for number, kinds in v.per_device.items():
        pairs = fields(kinds[kind]) if kind in kinds else {}
        said = [value for name, value in pairs.items() if name.lower() == key]
        if said and said[-1] is not None:
            yield number, said[-1]


def _unset(document: Document) -> bool:
    return bool(document.error and document.error.category == "network-not-configured")


def _no_hccn(facts: Facts, kind: str) -> Finding:
    asked = [a for key, a in facts.answers.items() if key.startswith("run hccn_tool ") and f"-{kind} " in key]
    if not asked:
        return follows("driver.tool")
    return _unread(asked[0])


def _unread(answer: Answer) -> Finding:
    if answer.outcome is Outcome.ABSENT:
        return unknown(
            "hccn_tool is not there",
            "It comes with the driver: /usr/local/Ascend/driver/tools.",
            "command -v hccn_tool",
        )
    return unknown(f"hccn_tool could not be read: {answer.outcome.value}", "Ask it by hand.", evidence=quote(answer))


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


def _ids(numbers: object) -> str:
    return ", ".join(map(str, list(numbers)[:8])) if isinstance(numbers, dict | list) else ""


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.hccn_link",
        hccn_link,
        reads="hccn_tool -link",
        source="FaultDiag Comp_Network_Custom",
        vendors=NPU,
        rule="FAIL when a port says anything but UP",
        fix="Cable, transceiver, switch port.",
    ),
    of_devices(
        "network.hccn_address",
        hccn_address,
        reads="hccn_tool -ip",
        source="FaultDiag Comp_Network_Custom",
        vendors=NPU,
        rule="FAIL when two ports have one address; a port without one: WARN, FAIL with several nodes wanted",
        fix="hccn_tool -ip -s.",
    ),
    of_devices(
        "network.hccn_health",
        hccn_health,
        reads="hccn_tool -net_health",
        source="FaultDiag Comp_Network_Custom",
        vendors=NPU,
        rule="WARN when a port does not reach what it watches; FAIL with several nodes wanted",
        fix="Gateway, VLAN, switch.",
    ),
    of_devices(
        "network.hccn_conf",
        hccn_conf,
        reads="/etc/hccn.conf, hccn_tool -ip",
        source="vllm-ascend#16847",
        vendors=NPU,
        rule="WARN when the file says another address than the port has",
        fix="Make file and port agree.",
    ),
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

"""The NPUs' own network ports: up, with an address, reaching what they watch, as the file has them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.derived.per_device import told_per_device
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
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
from envcheck.core.model import Answer, Document, Finding, Outcome, Status

CONF = "read /etc/hccn.conf"


def hccn_link(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU is up."""
    told = {n: str(said) for n, said in told_per_device(v, "link", "link status")}
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
    told = {n: str(said) for n, said in told_per_device(v, "ip", "ipaddr")}
    bare = [n for n, kinds in v.per_device.items() if "ip" in kinds and _unset(kinds["ip"])]
    if bare:
        grade = Status.FAIL if nodes_wanted(facts) > 1 else Status.WARN
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
    told = {n: str(said) for n, said in told_per_device(v, "net_health", "net health status")}
    bad, down = {n: said for n, said in told.items() if said.lower() not in ("success", "init")}, _down(v)
    for cause in ("", "network.hccn_link"):
        if some := {n: said for n, said in bad.items() if (n in down) == bool(cause)}:
            yield told_by(cause, _unreached(facts, some))
    if not bad:
        yield ok(f"{len(told)} ports reach what they watch") if told else _no_hccn(facts, "net_health")


def _unreached(facts: Facts, bad: dict[int, str]) -> Finding:
    grade = Status.FAIL if nodes_wanted(facts) > 1 else Status.WARN
    first = next(iter(bad))
    words = "Look at gateway, VLAN and switch: the watched address (netdetect) does not answer."
    shown = quote(facts.answers.get(f"run hccn_tool -i {first} -net_health -g"))
    seen = f"port of NPU {_ids(bad)}: {', '.join(sorted(set(bad.values())))}"
    return graded(grade, seen, words, f"hccn_tool -i {first} -netdetect -g", "cat /etc/hccn.conf", evidence=shown)


def _down(v: VendorFacts) -> dict[int, str]:
    """The ports that say of themselves that they are not up."""
    return {n: str(said) for n, said in told_per_device(v, "link", "link status") if str(said).upper() != "UP"}


def hccn_conf(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """/etc/hccn.conf says the addresses that the ports have: it is what a reboot brings back."""
    answer = facts.answers.get(CONF)
    live = {n: str(said) for n, said in told_per_device(v, "ip", "ipaddr")}
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


def _unset(document: Document) -> bool:
    return bool(document.error and document.error.category == "network-not-configured")


def _no_hccn(facts: Facts, kind: str) -> Finding:
    asked = [a for key, a in facts.answers.items() if key.startswith("run hccn_tool ") and f"-{kind} " in key]
    if not asked:
        return follows("driver.tool")
    return unread(asked[0])


def unread(answer: Answer) -> Finding:
    if answer.outcome is Outcome.ABSENT:
        return unknown(
            "hccn_tool is not there",
            "It comes with the driver: /usr/local/Ascend/driver/tools.",
            "command -v hccn_tool",
        )
    return unknown(f"hccn_tool could not be read: {answer.outcome.value}", "Ask it by hand.", evidence=quote(answer))


def _ids(numbers: object) -> str:
    return ", ".join(map(str, list(numbers)[:8])) if isinstance(numbers, dict | list) else ""


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.hccn_link",
        hccn_link,
        before="network.own_name",
        reads="hccn_tool -link",
        source="FaultDiag Comp_Network_Custom",
        rule="FAIL when a port says anything but UP",
        fix="Cable, transceiver, switch port.",
    ),
    of_devices(
        "network.hccn_address",
        hccn_address,
        before="network.own_name",
        reads="hccn_tool -ip",
        source="FaultDiag Comp_Network_Custom",
        rule="FAIL when two ports have one address; a port without one: WARN, FAIL with several nodes wanted",
        fix="hccn_tool -ip -s.",
    ),
    of_devices(
        "network.hccn_health",
        hccn_health,
        before="network.own_name",
        reads="hccn_tool -net_health",
        source="FaultDiag Comp_Network_Custom",
        rule="WARN when a port does not reach what it watches; FAIL with several nodes wanted",
        fix="Gateway, VLAN, switch.",
    ),
    of_devices(
        "network.hccn_conf",
        hccn_conf,
        before="network.own_name",
        reads="/etc/hccn.conf, hccn_tool -ip",
        source="vllm-ascend#16847",
        rule="WARN when the file says another address than the port has",
        fix="Make file and port agree.",
    ),
)

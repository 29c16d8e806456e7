"""The ports that the vendor's collectives open on the host: legal, and kept for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core import versions
from envcheck.core.check import NPU, Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, in_container, not_told, ok, quote, ranges, skip, unknown, warn
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Finding, Outcome
from envcheck.core.vendor import die_id

MOST = 65535
EPHEMERAL = "read /proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "read /proc/sys/net/ipv4/ip_local_reserved_ports"
RESERVING = "net.ipv4.ip_local_reserved_ports"
HOST_PORTS = "HCCL_HOST_SOCKET_PORT_RANGE"  # goes before HCCL_IF_BASE_PORT, CANN's environment reference
PORT_LISTS = (HOST_PORTS, "HCCL_NPU_SOCKET_PORT_RANGE")
BASE_MOST = 65520  # the same reference, HCCL_IF_BASE_PORT


@dataclass(frozen=True)
class Span:
    """The collectives' ports on the host, first and last; `said` is the variable that was read, `why` it is none."""

    first: int = 0
    last: int = 0
    said: str = ""
    why: str = ""


def base(facts: Facts, v: VendorFacts) -> Span:
    """From the variable, else the default; as many as the toolkit opens, where its version is unknown the most."""
    vendor, environment = v.vendor, facts.environment or {}
    text = environment.get(vendor.port_env, "")
    said = f"{vendor.port_env}={text}" if text else ""
    first = decimal(text) if text else vendor.port_base
    if first is None:
        return Span(said=said, why=f"{text[:40]} is no number")
    return Span(first, first + span(facts, v) - 1, said)


def span(facts: Facts, v: VendorFacts) -> int:
    toolkit = toolkit_version(facts, v)
    fits = [n for floor, n in v.vendor.port_spans if not toolkit or versions.at_least(toolkit, floor) is not False]
    return (fits or [v.vendor.port_spans[0][1]])[0]


def port_base(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The collectives' ports, counted from their base, end below 65536."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    found, name = base(facts, v), v.vendor.port_env
    if not found.said:
        yield skip(f"{name} is not set: {found.first} counts")
    elif HOST_PORTS in facts.environment:
        yield skip(f"{HOST_PORTS} goes before {name}")
    elif any(die_id(d) is None for d in v.devices):
        yield unknown("the cards' physical ids are not told, and the ports follow them")
    else:
        last = found.last + max(die_id(d) or 0 for d in v.devices)
        high = found.why or (
            "" if 1024 <= found.first <= BASE_MOST else f"{found.first} is outside 1024 to {BASE_MOST}"
        )
        wrong = high or (f"with the cards' numbers on top they end at {last}" if last > MOST else "")
        words = f"Set {name} lower, the same on each node, or unset it: {v.vendor.port_base} is the default."
        if wrong:
            yield fail(f"{found.said}: {wrong}", words, f"unset {name}", evidence=(f"environment: {found.said}",))
        else:
            yield ok(f"{found.said}, up to {last}")


def port_range(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The system gives the collectives' ports to nobody else: they are reserved, or beyond those that it gives out."""
    if len(v.devices) < 2:
        yield skip("one device opens none")
        return
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    if (wanted := used_ports(facts, v)) is None:
        yield skip("which ports the collectives open is told by no variable that can be read, or left to the system")
        return
    given, reserved = given_out(facts), kept_back(facts)
    if given is None or reserved is None:
        yield not_told(facts, EPHEMERAL if given is None else RESERVED)
    elif bare := [n for n in sorted(wanted) if n in given and n not in reserved]:
        words = (
            "Reserve them: any program that opens a connection may get one for its own end, and HCCL then cannot bind."
        )
        shown = (*quote(facts.answers.get(RESERVED)), *quote(facts.answers.get(EPHEMERAL)))
        seen = f"ports {ranges(bare)} of HCCL's are among {given[0]}-{given[-1]}, which the system gives out"
        how = "docker run --sysctl {}={}" if in_container(facts) else "sudo sysctl -w {}='{}'"
        yield warn(seen, words, how.format(RESERVING, reserving(facts, v)), evidence=shown)
    else:
        yield ok(f"ports {ranges(sorted(wanted))} are kept for HCCL")


def used_ports(facts: Facts, v: VendorFacts) -> set[int] | None:
    """None where the variables say nothing that could be read, or leave the choice to the system."""
    listed = (facts.environment or {}).get(HOST_PORTS, "")
    if listed:
        return None if listed == "auto" else port_list(listed)
    found = base(facts, v)
    return None if found.why or not 0 < found.first <= found.last <= MOST else set(range(found.first, found.last + 1))


def reserving(facts: Facts, v: VendorFacts) -> str:
    """The value with these ports and with those that are reserved already."""
    both = (used_ports(facts, v) or set()) | (kept_back(facts) or set())
    return as_list(both)


def as_list(ports: set[int]) -> str:
    """As the kernel writes it: 8080,60000-60031."""
    return ranges(sorted(ports)).replace(" ", "")


def given_out(facts: Facts) -> range | None:
    answer = facts.answers.get(EPHEMERAL)
    found = re.fullmatch(r"([0-9]{1,5})\s+([0-9]{1,5})", answer.out.strip()) if answer and answer.ok else None
    return range(int(found[1]), int(found[2]) + 1) if found else None


def kept_back(facts: Facts) -> set[int] | None:
    answer = facts.answers.get(RESERVED)
    if answer is not None and answer.outcome is Outcome.EMPTY:
        return set()
    return port_list(answer.out.strip()) if answer is not None and answer.ok else None


def port_list(text: str) -> set[int] | None:
    """`60000-60031,8080`; None where it is something else, or names a port twice."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last <= MOST or found & set(range(first, last + 1)):
            return None
        found |= set(range(first, last + 1))
    return found


def hccl_ports(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_HOST_SOCKET_PORT_RANGE and HCCL_NPU_SOCKET_PORT_RANGE are auto, or ports and ranges that do not overlap."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    said = {name: facts.environment[name] for name in PORT_LISTS if facts.environment.get(name)}
    wrong = [(name, text) for name, text in said.items() if text != "auto" and port_list(text) is None]
    if wrong:
        name, text = wrong[0]
        words = "Write auto, or ports and ranges from 1 to 65535 with commas between, none of them twice."
        yield fail(
            f"{name}={text[:80]}: no ports", words, f"unset {name}", evidence=(f"environment: {name}={text[:80]}",)
        )
    elif said:
        yield ok(", ".join(f"{name}={text[:80]}" for name, text in said.items()))
    else:
        yield skip("neither is set: HCCL takes 16666 on the card, which one process alone can have")


def decimal(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.port_base",
        port_base,
        reads="HCCL_IF_BASE_PORT, the cards' physical ids",
        source="vllm-ascend#12318; CANN environment variable reference",
        vendors=NPU,
        rule="FAIL when it is no number from 1024 to 65520, or the last port lies beyond 65535",
        fix="A lower base, or none.",
    ),
    of_devices(
        "network.port_range",
        port_range,
        reads="ip_local_port_range, ip_local_reserved_ports, HCCL's variables, CANN's version",
        source="vllm-ascend#405; CANN environment variable reference",
        vendors=NPU,
        rule="WARN when several cards are there and the system may give one of HCCL's ports to another program",
        fix="net.ipv4.ip_local_reserved_ports, also by doctor --fix.",
    ),
    of_devices(
        "network.hccl_ports",
        hccl_ports,
        reads="HCCL_HOST_SOCKET_PORT_RANGE, HCCL_NPU_SOCKET_PORT_RANGE",
        source="vllm-ascend#4725; CANN environment variable reference",
        vendors=NPU,
        rule="FAIL when one is neither auto nor a list of ports and ranges that do not overlap",
        fix="auto, or a list of ports.",
    ),
)

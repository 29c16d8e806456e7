"""HCCL's ports on the host: legal, and kept for it."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.derived.ports import (
    EPHEMERAL,
    MOST,
    RESERVED,
    RESERVING,
    base,
    given_out,
    kept_back,
    port_list,
    reserving,
    used_ports,
)
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, in_container, not_told, ok, quote, ranges, skip, unknown, warn
from envcheck.core.model import Finding
from envcheck.core.vendor import die_id

HOST_PORTS = "HCCL_HOST_SOCKET_PORT_RANGE"  # goes before HCCL_IF_BASE_PORT, CANN's environment reference
PORT_LISTS = (HOST_PORTS, "HCCL_NPU_SOCKET_PORT_RANGE")
BASE_MOST = 65520  # the same reference, HCCL_IF_BASE_PORT


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


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.port_base",
        port_base,
        before="network.master",
        reads="HCCL_IF_BASE_PORT, the cards' physical ids",
        source="vllm-ascend#12318; CANN environment variable reference",
        rule="FAIL when it is no number from 1024 to 65520, or the last port lies beyond 65535",
        fix="A lower base, or none.",
    ),
    of_devices(
        "network.port_range",
        port_range,
        before="network.master",
        reads="ip_local_port_range, ip_local_reserved_ports, HCCL's variables, CANN's version",
        source="vllm-ascend#405; CANN environment variable reference",
        rule="WARN when several cards are there and the system may give one of HCCL's ports to another program",
        fix="net.ipv4.ip_local_reserved_ports, also by doctor --fix.",
    ),
    of_devices(
        "network.hccl_ports",
        hccl_ports,
        before="network.master",
        reads="HCCL_HOST_SOCKET_PORT_RANGE, HCCL_NPU_SOCKET_PORT_RANGE",
        source="vllm-ascend#4725; CANN environment variable reference",
        rule="FAIL when one is neither auto nor a list of ports and ranges that do not overlap",
        fix="auto, or a list of ports.",
    ),
)

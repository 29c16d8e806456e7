"""The ports that the vendor's collectives open on the host, and those that the system gives out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.core import versions
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import ranges
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Outcome

MOST = 65535
EPHEMERAL = "read /proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "read /proc/sys/net/ipv4/ip_local_reserved_ports"
RESERVING = "net.ipv4.ip_local_reserved_ports"


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
    return (fits or [n for _, n in v.vendor.port_spans[:1]] or [1])[0]


def used_ports(facts: Facts, v: VendorFacts) -> set[int] | None:
    """None where the variables say nothing that could be read, or leave the choice to the system."""
    listed = (facts.environment or {}).get(v.vendor.port_list_env, "")
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


def decimal(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

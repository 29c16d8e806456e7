"""The ports that the vendor's collectives open on the host, and the ports that the system assigns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.core import versions
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import format_ranges
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import Outcome

HIGHEST_PORT = 65535
EPHEMERAL = "read /proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "read /proc/sys/net/ipv4/ip_local_reserved_ports"
RESERVING = "net.ipv4.ip_local_reserved_ports"


@dataclass(frozen=True)
class PortSpan:
    """The first and last port of the collectives; `setting` is the variable as VARIABLE=VALUE, `why` the reason if it
    is invalid."""

    first: int = 0
    last: int = 0
    setting: str = ""
    why: Message = NOTHING


def find_port_span(facts: Facts, v: VendorFacts) -> PortSpan:
    """Return the ports from the variable, else the default; the count is the toolkit's, or the highest if its version
    is unknown."""
    vendor, environment = v.vendor, facts.environment or {}
    text = environment.get(vendor.port_env, "")
    setting = f"{vendor.port_env}={text}" if text else ""
    first = parse_decimal(text) if text else vendor.port_base
    if first is None:
        return PortSpan(setting=setting, why=_("{text} is not a number", text=text[:40]))
    return PortSpan(first, first + count_ports_opened(facts, v) - 1, setting)


def count_ports_opened(facts: Facts, v: VendorFacts) -> int:
    """Return how many consecutive ports this toolkit version opens, the newest version's count if unknown."""
    toolkit = toolkit_version(facts, v)
    fits = [n for floor, n in v.vendor.port_spans if not toolkit or versions.is_at_least(toolkit, floor) is not False]
    return (fits or [n for _, n in v.vendor.port_spans[:1]] or [1])[0]


def list_used_ports(facts: Facts, v: VendorFacts) -> set[int] | None:
    """Return the ports of the collectives; None if the variables are invalid or the system chooses the ports."""
    listed = (facts.environment or {}).get(v.vendor.port_list_env, "")
    if listed:
        return None if listed == "auto" else parse_port_list(listed)
    found = find_port_span(facts, v)
    return (
        None
        if found.why or not 0 < found.first <= found.last <= HIGHEST_PORT
        else set(range(found.first, found.last + 1))
    )


def extend_reserved_ports(facts: Facts, v: VendorFacts) -> str:
    """Return the value of ip_local_reserved_ports with these ports added."""
    both = (list_used_ports(facts, v) or set()) | (read_reserved_ports(facts) or set())
    return format_ports(both)


def format_ports(ports: set[int]) -> str:
    """Return the ports in the kernel's format: 8080,60000-60031."""
    return format_ranges(sorted(ports)).replace(" ", "")


def read_ephemeral_range(facts: Facts) -> range | None:
    """Return the ephemeral ports of the kernel, None if unknown."""
    answer = facts.answers.get(EPHEMERAL)
    found = re.fullmatch(r"([0-9]{1,5})\s+([0-9]{1,5})", answer.out.strip()) if answer and answer.ok else None
    return range(int(found[1]), int(found[2]) + 1) if found else None


def read_reserved_ports(facts: Facts) -> set[int] | None:
    """Return the reserved ports of the kernel, None if unknown."""
    answer = facts.answers.get(RESERVED)
    if answer is not None and answer.outcome is Outcome.EMPTY:
        return set()
    return parse_port_list(answer.out.strip()) if answer is not None and answer.ok else None


def parse_port_list(text: str) -> set[int] | None:
    """Return the ports in `60000-60031,8080`; None if it is not a port list or contains duplicates."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last <= HIGHEST_PORT or found & set(range(first, last + 1)):
            return None
        found |= set(range(first, last + 1))
    return found


def parse_decimal(text: str) -> int | None:
    """Return a decimal number of up to nine digits, else None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

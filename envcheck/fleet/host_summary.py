"""The part of a host's facts that tests between hosts need: its job's ports, and its cards' addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.checks.host.network_interfaces import LOOPBACK
from envcheck.core.derived import collective_ports
from envcheck.core.derived.device_details import iterate_device_values
from envcheck.core.facts import Facts
from envcheck.core.vendor import find_die_id
from envcheck.fleet.consistency import VIRTUAL

MASTER_PORT = 29500  # default port of torchrun and other multi-node launchers


@dataclass(frozen=True)
class HostSummary:
    """A host as other hosts see it; `cards`: port address by physical card id, None without one.

    `master` is node 0's port.  `address` is where others reach the host, as far as it knows; `addresses` are all but
    loopback.
    """

    ports: tuple[int, ...] = ()
    master: int = MASTER_PORT
    cards: Mapping[int, str | None] = field(default_factory=dict)
    address: str = ""
    addresses: tuple[str, ...] = ()


def summarise_host(facts: Facts) -> HostSummary:
    """Return the summary of a host's facts."""
    environment = facts.environment or {}
    used: set[int] = set()
    cards: dict[int, str | None] = {}
    for v in facts.vendors:
        if v.vendor.port_env and len(v.devices) > 1:
            used |= collective_ports.list_used_ports(facts, v) or set()
        if v.vendor.module_link:  # hccn_tool reports their ports
            live = {n: str(value) for n, value in iterate_device_values(v, "ip", "ipaddr")}
            cards |= {n: live.get(n) for d in v.devices if (n := find_die_id(d)) is not None}
    found = re.search(r":(\d{1,5})$", environment.get("PADDLE_MASTER", ""))
    master = collective_ports.parse_decimal(environment.get("MASTER_PORT", "")) or (
        int(found[1]) if found else MASTER_PORT
    )
    master = master if 0 < master <= collective_ports.HIGHEST_PORT else MASTER_PORT
    addresses = _list_addresses(facts)
    resolved = facts.network.resolves_to if facts.network else None
    address = next((a for a in resolved or () if a in addresses), next(iter(addresses), ""))
    return HostSummary(tuple(sorted(used)), master, cards, address, addresses)


def _list_addresses(facts: Facts) -> tuple[str, ...]:
    """Return addresses of real interfaces that are up; IPv4 first, as the rank table needs."""
    listed = facts.network.interfaces if facts.network else {}
    found = [a for name, i in listed.items() if i.up and not name.startswith(VIRTUAL) for a in i.addresses]
    real = [a.partition("%")[0] for a in found if not LOOPBACK.match(a) and not a.startswith("fe80:")]
    return tuple(sorted(dict.fromkeys(real), key=lambda a: ":" in a))

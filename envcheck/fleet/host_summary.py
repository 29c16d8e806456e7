"""What one host says of itself that matters between hosts: the ports that its job opens, its cards' own addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.checks.host.network import LOOPBACK
from envcheck.core.derived import ports
from envcheck.core.derived.per_device import told_per_device
from envcheck.core.facts import Facts
from envcheck.core.vendor import die_id
from envcheck.fleet.consistency import VIRTUAL

MASTER_PORT = 29500  # torchrun's default, which launchers of several nodes share


@dataclass(frozen=True)
class Own:
    """`cards`: address of each card's port by its physical id, None where it has none; `master` is node 0's port.

    `address` is where others reach the host, as far as it knows itself; `addresses` are all but loopback.
    """

    ports: tuple[int, ...] = ()
    master: int = MASTER_PORT
    cards: Mapping[int, str | None] = field(default_factory=dict)
    address: str = ""
    addresses: tuple[str, ...] = ()


def read(facts: Facts) -> Own:
    environment = facts.environment or {}
    used: set[int] = set()
    cards: dict[int, str | None] = {}
    for v in facts.vendors:
        if v.vendor.port_env and len(v.devices) > 1:
            used |= ports.used_ports(facts, v) or set()
        if v.vendor.module_link:  # whose ports hccn_tool knows
            live = {n: str(said) for n, said in told_per_device(v, "ip", "ipaddr")}
            cards |= {n: live.get(n) for d in v.devices if (n := die_id(d)) is not None}
    found = re.search(r":(\d{1,5})$", environment.get("PADDLE_MASTER", ""))
    master = ports.decimal(environment.get("MASTER_PORT", "")) or (int(found[1]) if found else MASTER_PORT)
    master = master if 0 < master <= ports.MOST else MASTER_PORT
    addresses = _addresses(facts)
    resolved = facts.network.resolves_to if facts.network else None
    address = next((a for a in resolved or () if a in addresses), next(iter(addresses), ""))
    return Own(tuple(sorted(used)), master, cards, address, addresses)


def _addresses(facts: Facts) -> tuple[str, ...]:
    """IPv4 before IPv6, as the table of ranks wants it; of real interfaces that are up."""
    listed = facts.network.interfaces if facts.network else {}
    found = [a for name, i in listed.items() if i.up and not name.startswith(VIRTUAL) for a in i.addresses]
    real = [a.partition("%")[0] for a in found if not LOOPBACK.match(a) and not a.startswith("fe80:")]
    return tuple(sorted(dict.fromkeys(real), key=lambda a: ":" in a))

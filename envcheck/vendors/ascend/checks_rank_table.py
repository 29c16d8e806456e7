"""The table of ranks: where one is named, HCCL believes it and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.derived.per_device import told_per_device
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, figures, not_told, ok, reading, skip, warn
from envcheck.core.model import Finding
from probes.host import network_schemas
from probes.host.network_schemas import RankTable
from probes.host.rank_table_flaws import find_flaws

WORDS = "Make the table anew from the machines as they are, the same file on each node."
VARIABLE = "RANK_TABLE_FILE"


@reading(network_schemas.rank_table, "ask rank_table")
def rank_table(found: RankTable, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The table of ranks that RANK_TABLE_FILE names can be read and holds each rank and each address once."""
    if found.path is None:
        yield skip(f"{VARIABLE} is not set")
    elif found.error:
        shown = figures(VARIABLE, path=found.path)
        yield fail(f"{found.path}: {found.error}", WORDS, f"ls -l {found.path}", evidence=shown)
    elif flaws := list(find_flaws(found)):
        shown = figures(found.path, servers=len(found.servers), cards=len(found.cards))
        yield fail(f"{found.path}: {'; '.join(flaws[:3])}", WORDS, f"cat {found.path}", evidence=shown)
    else:
        yield ok(f"{len(found.cards)} ranks on {len(found.servers)} servers")


@reading(network_schemas.rank_table, "ask rank_table")
def rank_addresses(found: RankTable, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The table of ranks gives this host's cards the addresses that their ports have."""
    if found.path is None or found.error:
        yield skip(f"{VARIABLE} is not set" if found.path is None else "the table cannot be read")
        return
    live = {n: str(said) for n, said in told_per_device(v, "ip", "ipaddr")}
    own = set(live.values()) | _addresses(facts)
    mine = [c for c in found.cards if c.server in own or c.address in own]
    other = [c for c in mine if c.device in live and c.address not in (None, live[c.device])]
    if not live:
        yield not_told(facts, "run hccn_tool -i 0 -ip -g")
    elif not mine:
        words = f"Look whether the table is of these machines. {WORDS}"
        shown = figures(found.path, server_id=", ".join(found.servers[:4]))
        yield warn(
            f"{found.path} names neither this host nor one of its ports", words, f"cat {found.path}", evidence=shown
        )
    elif other:
        first = other[0]
        seen = f"card {first.device} has {live[first.device or 0]}, the table says {first.address}"
        fix = f"hccn_tool -i {first.device} -ip -g"
        yield fail(seen, WORDS, fix, evidence=figures(found.path, device_id=first.device, device_ip=first.address))
    else:
        yield ok(f"{len(mine)} of the table's cards are here, with their addresses")


def _addresses(facts: Facts) -> set[str]:
    known = facts.network.interfaces.values() if facts.network else ()
    names = {facts.host.hostname} if facts.host and facts.host.hostname else set()
    return {a for one in known for a in one.addresses if not a.startswith(("127.", "::1"))} | names


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.rank_table",
        rank_table,
        before="network.rdma",
        reads="the file that RANK_TABLE_FILE names",
        source="FaultDiag ERRMSG_Custom_02, HCCP_002",
        rule="FAIL when it is no table, misses or repeats a rank, an address or a server, or miscounts its servers",
        fix="A new table.",
    ),
    of_devices(
        "network.rank_addresses",
        rank_addresses,
        before="network.rdma",
        reads="RANK_TABLE_FILE, hccn_tool -ip, interfaces",
        source="FaultDiag ERRMSG_Custom_02, MindSpore_DP_21",
        rule="FAIL when the table gives a card of this host another address than its port has; WARN when it names none",
        fix="A new table.",
    ),
)

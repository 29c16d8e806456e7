"""The table of ranks: where one is named, HCCL believes it and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from envcheck.checks.host.network import _said
from envcheck.core.check import NPU, Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, figures, not_told, ok, ranges, reading, skip, warn
from envcheck.core.model import Finding
from probes.host import network_schemas
from probes.host.network_schemas import RankTable

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
    elif flaws := list(_flaws(found)):
        shown = figures(found.path, servers=len(found.servers), cards=len(found.cards))
        yield fail(f"{found.path}: {'; '.join(flaws[:3])}", WORDS, f"cat {found.path}", evidence=shown)
    else:
        yield ok(f"{len(found.cards)} ranks on {len(found.servers)} servers")


def _flaws(table: RankTable) -> Iterator[str]:
    if table.count is not None and table.count != len(table.servers):
        yield f"server_count is {table.count}, and {len(table.servers)} are listed"
    ranks, wanted = [c.rank for c in table.cards], set(range(len(table.cards)))
    if not ranks:
        yield "it lists no card"
    elif set(ranks) != wanted:
        missing = ranges(sorted(wanted - set(ranks)))
        yield f"ranks should be 0 to {len(ranks) - 1}, each once, and lack {missing}"
    if twice := _twice(c.address for c in table.cards):
        yield f"device_ip {twice} stands there twice"
    if twice := _twice(table.servers):
        yield f"server_id {twice} stands there twice"
    if any(c.device is None for c in table.cards):
        yield "a device_id is missing or no number"


@reading(network_schemas.rank_table, "ask rank_table")
def rank_addresses(found: RankTable, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The table of ranks gives this host's cards the addresses that their ports have."""
    if found.path is None or found.error:
        yield skip(f"{VARIABLE} is not set" if found.path is None else "the table cannot be read")
        return
    live = {n: str(said) for n, said in _said(v, "ip", "ipaddr")}
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


def _twice(values: Iterable[str | None]) -> str | None:
    return next((value for value, n in Counter(v for v in values if v).items() if n > 1), None)


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.rank_table",
        rank_table,
        reads="the file that RANK_TABLE_FILE names",
        source="FaultDiag ERRMSG_Custom_02, HCCP_002",
        vendors=NPU,
        rule="FAIL when it is no table, misses or repeats a rank, an address or a server, or miscounts its servers",
        fix="A new table.",
    ),
    of_devices(
        "network.rank_addresses",
        rank_addresses,
        reads="RANK_TABLE_FILE, hccn_tool -ip, interfaces",
        source="FaultDiag ERRMSG_Custom_02, MindSpore_DP_21",
        vendors=NPU,
        rule="FAIL when the table gives a card of this host another address than its port has; WARN when it names none",
        fix="A new table.",
    ),
)

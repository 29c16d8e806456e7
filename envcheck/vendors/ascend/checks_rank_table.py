"""Checks of the rank table: if one is set, HCCL uses only that."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.derived.device_details import iterate_device_values
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, ok, quote_values, report_unanswered, requires_fact, skip, warn
from envcheck.core.messages import _, fill, join, ngettext
from envcheck.core.model import Finding, diagnose, fix
from probes.host import network_schemas
from probes.host.network_schemas import RankTable
from probes.host.rank_table_flaws import find_rank_table_errors

WORDS = _("Regenerate the rank table for the current hosts, and copy the same file to every node.")
VARIABLE = "RANK_TABLE_FILE"


@requires_fact(network_schemas.read_rank_table, "ask rank_table")
def check_rank_table(found: RankTable, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The rank table in RANK_TABLE_FILE is readable, and lists each rank and each address once."""
    if found.path is None:
        yield skip(_("{variable} is not set", variable=VARIABLE))
    elif found.error:
        shown = quote_values(VARIABLE, path=found.path)
        yield fail(
            _("{path}: {error}", path=found.path, error=fill(found.error)),
            diagnose(WORDS, f"ls -l {found.path}"),
            evidence=shown,
        )
    elif flaws := list(find_rank_table_errors(found)):
        shown = quote_values(found.path, servers=len(found.servers), cards=len(found.cards))
        yield fail(
            _("{path}: {flaws}", path=found.path, flaws=join("; ", flaws[:3])),
            diagnose(WORDS, f"cat {found.path}"),
            evidence=shown,
        )
    else:
        yield ok(
            ngettext(
                "{ranks} ranks on {count} server",
                "{ranks} ranks on {count} servers",
                len(found.servers),
                ranks=len(found.cards),
            )
        )


@requires_fact(network_schemas.read_rank_table, "ask rank_table")
def check_rank_addresses(found: RankTable, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The rank table has the addresses of this host's NPU ports."""
    if found.path is None or found.error:
        yield skip(
            _("{variable} is not set", variable=VARIABLE) if found.path is None else _("cannot read the rank table")
        )
        return
    live = {n: str(address) for n, address in iterate_device_values(v, "ip", "ipaddr")}
    own = set(live.values()) | _list_own_addresses(facts)
    mine = [c for c in found.cards if c.server in own or c.address in own]
    other = [c for c in mine if c.device in live and c.address not in (None, live[c.device])]
    if not live:
        yield report_unanswered(facts, "run hccn_tool -i 0 -ip -g")
    elif not mine:
        words = _("Check that the rank table is for these hosts. {advice}", advice=WORDS)
        shown = quote_values(found.path, server_id=", ".join(found.servers[:4]))
        yield warn(
            _("{path} does not contain this host or its ports", path=found.path),
            diagnose(words, f"cat {found.path}"),
            evidence=shown,
        )
    elif other:
        first = other[0]
        seen = _(
            "device {device} has {live}, but the rank table has {address}",
            device=first.device,
            live=live[first.device or 0],
            address=first.address,
        )
        commands = f"hccn_tool -i {first.device} -ip -g"
        yield fail(
            seen,
            fix(WORDS, commands),
            evidence=quote_values(found.path, device_id=first.device, device_ip=first.address),
        )
    else:
        yield ok(
            ngettext(
                "{count} device of the rank table is on this host, with a matching address",
                "{count} devices of the rank table are on this host, with matching addresses",
                len(mine),
            )
        )


def _list_own_addresses(facts: Facts) -> set[str]:
    known = facts.network.interfaces.values() if facts.network else ()
    names = {facts.host.hostname} if facts.host and facts.host.hostname else set()
    return {a for one in known for a in one.addresses if not a.startswith(("127.", "::1"))} | names


CHECKS: tuple[Check, ...] = (
    device_check(
        "network.rank_table",
        check_rank_table,
        before="network.rdma",
        reads="the file in RANK_TABLE_FILE",
        source="FaultDiag ERRMSG_Custom_02, HCCP_002",
        rule="FAIL if invalid: a rank, address or server is missing or repeated, or the server count is wrong",
        fix="Write a new rank table.",
    ),
    device_check(
        "network.rank_addresses",
        check_rank_addresses,
        before="network.rdma",
        reads="RANK_TABLE_FILE, hccn_tool -ip, interfaces",
        source="FaultDiag ERRMSG_Custom_02, MindSpore_DP_21",
        rule="FAIL if the table and a port differ; WARN if the table has no address for it",
        fix="Write a new rank table.",
    ),
)

"""Ascend's HCCL rank table: create it from the addresses of the cards' ports, or verify a file against them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envcheck.collect.host import hccl_rank_table as probe
from envcheck.core.errors import UsageError
from envcheck.core.findings import format_ranges
from envcheck.core.host_names import fold_hosts
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from envcheck.core.model import Finding, Status, manual
from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.outlier import Outlier
from probes.host.network_schemas import RankedDevice, RankTable
from probes.host.rank_table_flaws import find_rank_table_errors

NAME, SOURCE = "fleet.ranks", "FaultDiag ERRMSG_Custom_02, HCCP_002; MindX DL's hccl.json, version 1.0"
# Errors of the collector that reads the file.
OF_FILES = (
    mark("not valid JSON"),
    mark("server_list is missing"),
    mark("not a regular file"),
    mark("larger than 4 MiB"),
)
RECREATE = _(
    "Move the file away and run again with --rank-table to create a new one; copy it to the same path on all nodes."
)
FIX_ADDRESSES = _("Assign a unique address to each card (hccn_tool -ip -s) on all listed hosts, and run again.")
SHOWN = 3


def find_obstacle(own: Mapping[str, HostSummary | None]) -> Message:
    """Return why no rank table can be created for these hosts, "" if it can."""
    silent = [host for host, one in own.items() if one is None]
    if silent:
        return _("no response from {silent}", silent=fold_hosts(silent))
    bare = [host for host, one in own.items() if one and not one.cards]
    if bare:
        return _("hccn_tool lists no card on {bare}", bare=fold_hosts(bare))
    for host, one in own.items():
        missing = [n for n, address in (one.cards if one else {}).items() if address is None]
        if missing:
            return _(
                "{host}: no address on the ports of cards {missing}",
                missing=format_ranges(sorted(missing)),
                host=host,
            )
        if one and not one.address:
            return _("{host} reports no host address", host=host)
    if same := _find_duplicate(one.address for one in own.values() if one):
        return _("two hosts report the same address {same}", same=same)
    twice = _find_duplicate(address for one in own.values() if one for address in one.cards.values())
    return _("two cards have the same address {twice}", twice=twice) if twice else NOTHING


def _find_duplicate(addresses: Iterable[str | None]) -> str | None:
    """Return the first address that occurs more than once."""
    return next((address for address, count in Counter(addresses).items() if count > 1), None)


def render_table(own: Mapping[str, HostSummary]) -> str:
    """Return the rank table as JSON; ranks follow the order of hosts, then of their cards."""
    servers: list[dict[str, Any]] = []
    rank = 0
    for one in own.values():
        devices = []
        for number, address in sorted(one.cards.items()):
            devices.append({"device_id": str(number), "device_ip": address, "rank_id": str(rank)})
            rank += 1
        servers.append({"server_id": one.address, "device": devices, "host_nic_ip": "reserve"})
    table = {"version": "1.0", "server_count": str(len(servers)), "server_list": servers, "status": "completed"}
    return json.dumps(table, indent=1) + "\n"


def check_table(path: Path, own: Mapping[str, HostSummary | None]) -> Outlier:
    """Compare the rank table in the file with the hosts."""
    table = probe.read_rank_table(str(path))
    if table["error"]:
        return _make_outlier(Status.FAIL, _("{path}: {error}", path=path, error=fill(table["error"])))
    servers = [str(one["id"]) for one in table["servers"]]
    cards = tuple(
        RankedDevice(str(one["id"]), d["id"], d["address"], d["rank"])
        for one in table["servers"]
        for d in one["devices"]
    )
    flaws = [
        *find_rank_table_errors(RankTable(str(path), None, table["count"], tuple(servers), cards)),
        *_compare_servers(servers, cards, own),
    ]
    if flaws:
        more = _("; {more} more", more=len(flaws) - SHOWN) if flaws[SHOWN:] else ""
        return _make_outlier(
            Status.FAIL,
            _("{path}: {flaws}{more}", path=path, flaws=join("; ", flaws[:SHOWN]), more=more),
            flaws[SHOWN:40],
        )
    if any(one is None for one in own.values()):
        return _make_outlier(
            Status.UNKNOWN,
            _(
                "{path}: not verified on {items}",
                path=path,
                items=fold_hosts((h for h, one in own.items() if one is None)),
            ),
        )
    return Outlier(
        Finding(
            NAME,
            Status.OK,
            _(
                "{path}: {cards_count} ranks, consistent with the addresses of the cards",
                path=path,
                cards_count=len(cards),
            ),
            None,
            (),
            SOURCE,
        )
    )


def _compare_servers(
    servers: Iterable[str], cards: Iterable[RankedDevice], own: Mapping[str, HostSummary | None]
) -> Iterator[Message]:
    known = {host: one for host, one in own.items() if one is not None}
    of = {server: h for server in servers for h, one in known.items() if server in (h, *one.addresses)}
    strangers = [server for server in servers if server not in of]
    if strangers and len(known) == len(own):
        yield _("server_id {strangers} does not match any of these hosts", strangers=join(", ", strangers[:SHOWN]))
    for host, one in known.items():
        mine = {c.device: c.address for c in cards if of.get(c.server) == host}
        if not mine:
            yield _("{host} is missing", host=host)
            continue
        yield from _compare_cards(host, mine, one.cards)


def _compare_cards(
    host: str, listed: Mapping[int | None, str | None], live: Mapping[int, str | None]
) -> Iterator[Message]:
    for number, address in listed.items():
        if number is not None and number not in live:
            yield _("{host} has no card {number}", host=host, number=number)
        elif number is not None and live[number] not in (None, address):
            yield _(
                "card {number} of {host}: expected {address}, got {live}",
                number=number,
                host=host,
                live=live[number],
                address=address,
            )
    left_out = sorted(set(live) - {n for n in listed if n is not None})
    if left_out:
        yield _("cards {left_out} of {host} are missing", left_out=format_ranges(left_out), host=host)


def write_or_check(path: Path, own: Mapping[str, HostSummary | None]) -> Outlier:
    """Verify the file if it exists, else create it if possible."""
    if path.exists():
        return check_table(path, own)
    if why := find_obstacle(own):
        return _make_outlier(Status.FAIL, _("rank table not created: {why}", why=why), words=FIX_ADDRESSES)
    from envcheck.core import local_files

    local_files.check_writable(path)
    local_files.write_file(path, render_table({host: one for host, one in own.items() if one}))
    count = sum(len(one.cards) for one in own.values() if one)
    seen = _(
        "{path}: written (ranks: {count}, hosts: {hosts_count}); copy it to the same path on all hosts and set "
        "RANK_TABLE_FILE",
        path=path,
        count=count,
        hosts_count=len(own),
    )
    return Outlier(Finding(NAME, Status.OK, seen, None, (), SOURCE))


def refuse_bad_path(path: str) -> None:
    """UsageError if the path cannot be used; called before any host is contacted."""
    from envcheck.core import local_files

    if Path(path).is_dir():
        raise UsageError(_("{path} is a directory", path=path), _("specify a file with --rank-table"))
    if not Path(path).exists():
        local_files.check_writable(Path(path))


def _make_outlier(grade: Status, seen: Message, evidence: Iterable[str] = (), words: Message = RECREATE) -> Outlier:
    return Outlier(Finding(NAME, grade, seen, manual(words), tuple(evidence), SOURCE))

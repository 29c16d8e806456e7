"""Ascend's table of ranks for a fleet: made from what the cards' ports say, or a file compared with that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envcheck.collect.host import hccl_rank_table as probe
from envcheck.core.errors import UsageError
from envcheck.core.findings import ranges
from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.host_summary import Own
from envcheck.fleet.outlier import Odd
from probes.host.network_schemas import Ranked, RankTable
from probes.host.rank_table_flaws import find_flaws

NAME, SOURCE = "fleet.ranks", "FaultDiag ERRMSG_Custom_02, HCCP_002; MindX DL's hccl.json, version 1.0"
ANEW = "Move the file away and ask again with --rank-table: it is made anew, for the same place on all nodes."
MEND = "Give each card an address of its own (hccn_tool -ip -s), on all hosts that are named, and ask again."
SHOWN = 3


def lacking(own: Mapping[str, Own | None]) -> str:
    """Why no table can be made of these hosts, else ""."""
    silent = [host for host, one in own.items() if one is None]
    if silent:
        return f"{fold_hosts(silent)} did not answer"
    bare = [host for host, one in own.items() if one and not one.cards]
    if bare:
        return f"{fold_hosts(bare)} has no card that hccn_tool knows"
    for host, one in own.items():
        missing = [n for n, address in (one.cards if one else {}).items() if address is None]
        if missing:
            return f"the ports of cards {ranges(sorted(missing))} of {host} have no address"
        if one and not one.address:
            return f"{host} tells no address of its own"
    if same := _twice(one.address for one in own.values() if one):
        return f"{same} is what two hosts tell as their own address"
    twice = _twice(address for one in own.values() if one for address in one.cards.values())
    return f"{twice} is the address of two cards" if twice else ""


def _twice(addresses: Iterable[str | None]) -> str | None:
    """The first that is there more than once."""
    return next((address for address, count in Counter(addresses).items() if count > 1), None)


def made(own: Mapping[str, Own]) -> str:
    """Ranks count through the hosts in their order, and through each one's cards."""
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


def checked(path: Path, own: Mapping[str, Own | None]) -> Odd:
    """The file beside what the hosts say."""
    said = probe.read(str(path))
    if said["error"]:
        return _odd(Status.FAIL, f"{path}: {said['error']}")
    servers = [str(one["id"]) for one in said["servers"]]
    cards = tuple(
        Ranked(str(one["id"]), d["id"], d["address"], d["rank"]) for one in said["servers"] for d in one["devices"]
    )
    flaws = [
        *find_flaws(RankTable(str(path), None, said["count"], tuple(servers), cards)),
        *_unlike(servers, cards, own),
    ]
    if flaws:
        more = f"; {len(flaws) - SHOWN} more" if flaws[SHOWN:] else ""
        return _odd(Status.FAIL, f"{path}: {'; '.join(flaws[:SHOWN])}{more}", flaws[SHOWN:40])
    if any(one is None for one in own.values()):
        return _odd(Status.UNKNOWN, f"{path}: {fold_hosts(h for h, one in own.items() if one is None)} could not say")
    return Odd(Finding(NAME, Status.OK, f"{path}: {len(cards)} ranks, as the cards' ports say", None, (), SOURCE))


def _unlike(servers: Iterable[str], cards: Iterable[Ranked], own: Mapping[str, Own | None]) -> Iterator[str]:
    told = {host: one for host, one in own.items() if one is not None}
    of = {server: h for server in servers for h, one in told.items() if server in (h, *one.addresses)}
    strangers = [server for server in servers if server not in of]
    if strangers and len(told) == len(own):
        yield f"server_id {', '.join(strangers[:SHOWN])} is none of these hosts"
    for host, one in told.items():
        mine = {c.device: c.address for c in cards if of.get(c.server) == host}
        if not mine:
            yield f"{host} is not in it"
            continue
        yield from _cards(host, mine, one.cards)


def _cards(host: str, listed: Mapping[int | None, str | None], live: Mapping[int, str | None]) -> Iterator[str]:
    for number, address in listed.items():
        if number is not None and number not in live:
            yield f"{host} has no card {number}"
        elif number is not None and live[number] not in (None, address):
            yield f"card {number} of {host} has {live[number]}, the table says {address}"
    left_out = sorted(set(live) - {n for n in listed if n is not None})
    if left_out:
        yield f"cards {ranges(left_out)} of {host} are not in it"


def told(path: Path, own: Mapping[str, Own | None]) -> Odd:
    """The file is checked where it is, and written where it is not and can be."""
    if path.exists():
        return checked(path, own)
    if why := lacking(own):
        return _odd(Status.FAIL, f"no table of ranks was made: {why}", words=MEND)
    from envcheck.report import write

    write.check(path)
    write.write(path, made({host: one for host, one in own.items() if one}))
    count = sum(len(one.cards) for one in own.values() if one)
    seen = f"{path}: written, {count} ranks on {len(own)} hosts; put it at one place on all, for RANK_TABLE_FILE"
    return Odd(Finding(NAME, Status.OK, seen, None, (), SOURCE))


def refuse(path: str) -> None:
    """Before a host is asked."""
    from envcheck.report import write

    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder", "name a file with --rank-table")
    if not Path(path).exists():
        write.check(Path(path))


def _odd(grade: Status, seen: str, evidence: Iterable[str] = (), words: str = ANEW) -> Odd:
    return Odd(Finding(NAME, grade, seen, Remedy(words), tuple(evidence), SOURCE))

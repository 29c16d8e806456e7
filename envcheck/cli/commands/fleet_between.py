"""--between and --rank-table of doctor --hosts: what is known only when all hosts have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import UsageError

if TYPE_CHECKING:
    from envcheck.fleet.evaluate import Host
    from envcheck.fleet.outlier import Odd

PORTS_LIMIT = 512
STEPS = {
    "clocks": "looking at clocks",
    "meet": "opening ports",
    "names": "asking for names",
    "knock": "knocking at ports",
    "measure": "measuring in rounds",
    "packets": "sending whole packets",
    "cards": "pinging from card to card",
    "rdma": "trying RDMA in rounds",
}


def refuse(asked: dict[str, Any]) -> None:
    """Before a host is asked."""
    if asked["ports"]:
        _ports(asked["ports"])
    if asked["rank_table"]:
        from envcheck.fleet import hccl_rank_table

        hccl_rank_table.refuse(asked["rank_table"])


def told(asked: dict[str, Any], hosts: Sequence[Host]) -> list[Odd] | None:
    """None where nothing of this was asked: the fleet's rough look at the clocks counts then."""
    if not asked["between"] and not asked["rank_table"]:
        return None
    found = _tried(asked, hosts) if asked["between"] else _rough(hosts)
    if asked["rank_table"]:
        from pathlib import Path

        from envcheck.fleet import hccl_rank_table

        found.append(hccl_rank_table.told(Path(asked["rank_table"]), {host.name: host.own for host in hosts}))
    return found


def _rough(hosts: Sequence[Host]) -> list[Odd]:
    from envcheck.fleet import clocks

    return clocks.odd({host.name: host.offset for host in hosts if host.offset})


def _tried(asked: dict[str, Any], hosts: Sequence[Host]) -> list[Odd]:
    from envcheck.core import process
    from envcheck.fleet.peers import peer_findings, peer_tests

    own = {host.name: host.own for host in hosts if host.own}
    if len(own) < 2:
        return [peer_findings.too_few(len(own))]
    terms = peer_tests.Terms(asked["fanout"], asked["deadline"], _ports(asked["ports"]) if asked["ports"] else ())
    with process.no_child_left(), _progress() as step:
        return peer_findings.findings(peer_tests.tried(own, terms, step))


def _ports(text: str) -> tuple[int, ...]:
    from envcheck.core.derived.ports import port_list

    found = port_list(text)
    if not found or len(found) > PORTS_LIMIT:
        raise UsageError(f"--ports {text[:80]}: no list of up to {PORTS_LIMIT} ports", "write it as 29500,60000-60015")
    return tuple(sorted(found))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """On a terminal what is being tried; else nothing."""
    import sys

    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console

    with Console(stderr=True).status("between the hosts") as status:
        yield lambda name: status.update(f"between the hosts: {STEPS[name]}")

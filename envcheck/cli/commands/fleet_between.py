"""--between and --rank-table of doctor --hosts: what is known only when all hosts have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.cli.doctor_options import HostsReportOptions, ReplayOptions
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


def refuse(request: HostsReportOptions | ReplayOptions) -> None:
    """Before a host is asked."""
    if isinstance(request, HostsReportOptions):
        _ports(request.ports)
    if request.rank_table:
        from envcheck.fleet import hccl_rank_table

        hccl_rank_table.refuse(request.rank_table)


def told(request: HostsReportOptions | ReplayOptions, hosts: Sequence[Host]) -> list[Odd] | None:
    """None where nothing of this was asked: the fleet's rough look at the clocks counts then."""
    is_between = isinstance(request, HostsReportOptions) and request.between
    if not is_between and not request.rank_table:
        return None
    found = _tried(request, hosts) if isinstance(request, HostsReportOptions) and is_between else _rough(hosts)
    if request.rank_table:
        from envcheck.fleet import hccl_rank_table

        found.append(hccl_rank_table.told(Path(request.rank_table), {host.name: host.own for host in hosts}))
    return found


def _rough(hosts: Sequence[Host]) -> list[Odd]:
    from envcheck.fleet import clocks

    return clocks.odd({host.name: host.offset for host in hosts if host.offset})


def _tried(request: HostsReportOptions, hosts: Sequence[Host]) -> list[Odd]:
    from envcheck.core import process
    from envcheck.fleet.peers import peer_findings, peer_tests

    own = {host.name: host.own for host in hosts if host.own}
    if len(own) < 2:
        return [peer_findings.too_few(len(own))]
    terms = peer_tests.Terms(request.fanout, request.deadline, _ports(request.ports))
    with process.no_child_left(), _progress() as step:
        return peer_findings.findings(peer_tests.tried(own, terms, step))


def _ports(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
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

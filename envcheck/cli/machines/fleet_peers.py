"""--between and --rank-table of doctor --hosts: checks that need the results of all hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.cli.doctor_options import HostsReportOptions, ReplayOptions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, fill, mark

if TYPE_CHECKING:
    from envcheck.fleet.evaluate import JudgedHost
    from envcheck.fleet.outlier import Outlier

PORTS_LIMIT = 512
STEPS = {
    "clocks": mark("checking clocks"),
    "meet": mark("opening ports"),
    "names": mark("resolving host names"),
    "knock": mark("checking ports"),
    "measure": mark("measuring bandwidth in rounds"),
    "packets": mark("sending full-size packets"),
    "cards": mark("pinging between devices"),
    "rdma": mark("testing RDMA in rounds"),
}


def refuse_bad_options(request: HostsReportOptions | ReplayOptions) -> None:
    """Raise UsageError for invalid options, before any host is contacted."""
    if isinstance(request, HostsReportOptions):
        _parse_ports(request.ports)
    if request.rank_table:
        from envcheck.fleet import hccl_rank_table

        hccl_rank_table.refuse_bad_path(request.rank_table)


def find_peer_outliers(
    request: HostsReportOptions | ReplayOptions, hosts: Sequence[JudgedHost]
) -> list[Outlier] | None:
    """Return the findings between hosts; None if none was requested: then the rough clock comparison counts."""
    is_between = isinstance(request, HostsReportOptions) and request.between
    if not is_between and not request.rank_table:
        return None
    found = (
        _run_peer_tests(request, hosts)
        if isinstance(request, HostsReportOptions) and is_between
        else _compare_clocks(hosts)
    )
    if request.rank_table:
        from envcheck.fleet import hccl_rank_table

        found.append(hccl_rank_table.write_or_check(Path(request.rank_table), {host.name: host.own for host in hosts}))
    return found


def _compare_clocks(hosts: Sequence[JudgedHost]) -> list[Outlier]:
    from envcheck.fleet import clocks

    return clocks.find_outliers({host.name: host.offset for host in hosts if host.offset})


def _run_peer_tests(request: HostsReportOptions, hosts: Sequence[JudgedHost]) -> list[Outlier]:
    from envcheck.core import process
    from envcheck.fleet.peers import host_findings, host_tests

    own = {host.name: host.own for host in hosts if host.own}
    if len(own) < 2:
        return [host_findings.describe_too_few_hosts(len(own))]
    terms = host_tests.PeerTestTerms(request.fanout, request.host_timeout_s, _parse_ports(request.ports))
    with process.terminate_children_on_error(), _show_progress() as step:
        return host_findings.list_findings(host_tests.run_peer_tests(own, terms, step))


def _parse_ports(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    from envcheck.core.derived.collective_ports import parse_port_list

    found = parse_port_list(text)
    if not found or len(found) > PORTS_LIMIT:
        raise UsageError(
            _("--ports {ports}: expected a list of at most {limit} ports", ports=text[:80], limit=PORTS_LIMIT),
            _("write it as 29500,60000-60015"),
        )
    return tuple(sorted(found))


@contextmanager
def _show_progress() -> Iterator[Callable[[str], None]]:
    """Show the current test on a terminal only."""
    import sys

    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console

    from envcheck.core.language import translate

    with Console(stderr=True).status(translate(_("between the hosts"))) as status:
        yield lambda name: status.update(translate(_("between the hosts: {step}", step=fill(STEPS[name]))))

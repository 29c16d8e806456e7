"""Checks of RDMA between hosts, port to port, as far as their tools can report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from envcheck.core.host_names import fold_hosts
from envcheck.core.messages import Message, _, join, verbatim
from envcheck.core.model import diagnose, manual
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers import pairing, rdma_rounds, rdma_tools
from envcheck.fleet.peers.check_bandwidth import format_rate
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import (
    BLOCKED,
    FAIL,
    NOT_APPLICABLE,
    UNKNOWN,
    WARN,
    format_more,
    make_outlier,
    make_passed,
)
from envcheck.fleet.peers.rdma_output import RdmaOutcome, RdmaVerdict
from envcheck.fleet.peers.rdma_tools import RdmaEndpoint, RdmaTrial

SHOWN = 4
LOST = _(
    "Check the cable, switch, VLAN and subnet manager; for RoCE also the GID index, routes and PFC. Then test manually:"
)
UNDETERMINED_ADVICE = {
    RdmaVerdict.UNMET: _(
        "Allow TCP between the hosts for the tools' control connection (ports from 18515), or test manually:"
    ),
    RdmaVerdict.UNABLE: _(
        "Grant the user access to /dev/infiniband on the host and allow locked memory (ulimit -l "
        "unlimited). Then test manually:"
    ),
    RdmaVerdict.UNREAD: _("Test it manually:"),
}


def check_connections(observed: PeerObservations) -> Iterator[Outlier]:
    """Report RDMA problems; OK only if no path failed or is unknown."""
    found = observed.rdma
    gone = {one for one in found.outcomes if {one.a.host, one.b.host} & observed.gone.keys()}
    outcomes = {one: end for one, end in {**found.outcomes, **found.again}.items() if one not in gone}
    bad = [
        *_find_missing_parts(observed),
        *_find_lost_paths(observed, outcomes),
        *_find_undetermined_paths(observed, outcomes),
        *_find_slow_paths(observed, outcomes),
    ]
    yield from bad
    if outcomes and not any(one.finding.status in (FAIL, UNKNOWN) for one in bad):
        yield _describe_healthy_paths(outcomes)


def _find_missing_parts(observed: PeerObservations) -> Iterator[Outlier]:
    """Report hosts that lack what the others have: devices, active ports, tools, an answer."""
    found = observed.rdma
    if silent := [host for host in found.silent if host not in observed.gone]:
        yield make_outlier(
            "rdma",
            UNKNOWN,
            _("{silent} did not report its RDMA devices", silent=fold_hosts(silent)),
            manual(_("Try again.")),
            silent,
        )
    having = [host for host, ends in found.ends.items() if ends]
    bare = [host for host in found.ends if host not in having]
    if not having:
        down = [host for host, has in found.has.items() if has.ports]
        why = _("no active InfiniBand or RoCE port") if down else _("no host has an RDMA device")
        if found.has:
            yield make_outlier("rdma", NOT_APPLICABLE, why, None)
    elif bare:
        words = _(
            "Bring the port up (ibstat), or disable RDMA on all hosts: NCCL_IB_DISABLE=1, FLAGCX_USE_HOST_COMM=1."
        )
        yield make_outlier(
            "rdma",
            WARN,
            _("{bare} has no active RDMA port, but {having} does", bare=fold_hosts(bare), having=fold_hosts(having)),
            diagnose(words, "ibstat"),
            bare,
        )
    if shut := [host for host in found.shut if host not in observed.gone]:
        text = _("RDMA not tested with {shut}: see fleet.open", shut=fold_hosts(shut))
        one = make_outlier("rdma", BLOCKED, text, None, shut)
        yield replace(one, finding=replace(one.finding, blocked_by="fleet.open"))
    if found.toolless:
        yield _describe_missing_tools(observed)


def _describe_missing_tools(observed: PeerObservations) -> Outlier:
    """Report hosts without a common tool; hosts without any tool are listed rather than those with another one."""
    hosts = list(dict.fromkeys(host for pair in observed.rdma.toolless for host in pair))
    without = [host for host in hosts if not observed.rdma.has[host].tools]
    packages = join(", ", dict.fromkeys(tool.package for tool in rdma_tools.TOOLS.values()))
    if without:
        text = _(
            "RDMA could not be tested: none of {tools} found on {without}",
            without=fold_hosts(without),
            tools=join(", ", rdma_tools.TOOLS),
        )
    else:
        text = _("RDMA could not be tested between {hosts}: no tool or port type in common", hosts=fold_hosts(hosts))
    return make_outlier(
        "rdma",
        UNKNOWN,
        text,
        manual(_("Install one of {packages} on all of these hosts.", packages=packages)),
        without or hosts,
    )


def _find_lost_paths(observed: PeerObservations, outcomes: Mapping[RdmaTrial, RdmaOutcome]) -> Iterator[Outlier]:
    """Report a host with most failed paths by its ports, and other failures by path."""
    lost = [one for one, end in outcomes.items() if end.kind in (RdmaVerdict.LOST, RdmaVerdict.LATE)]
    hosts, left = pairing.blame_hosts(
        dict.fromkeys(map(_get_host_pair, lost)), dict.fromkeys(map(_get_host_pair, outcomes))
    )
    for host in hosts:
        of_it = [
            one
            for one in lost
            if host in _get_host_pair(one) and not set(_get_host_pair(one)) & set(hosts[: hosts.index(host)])
        ]
        partners = fold_hosts(other for one in of_it for other in _get_host_pair(one) if other != host)
        ports = list(dict.fromkeys(end.name for one in of_it for end in (one.a, one.b) if end.host == host))
        text = _(
            "RDMA between {ports}{others} of {host} and {partners} failed: {why}",
            ports=join(", ", ports[:SHOWN]),
            others=format_more(ports, SHOWN),
            host=host,
            partners=partners,
            why=_explain_outcome(outcomes[of_it[0]]),
        )
        yield make_outlier("rdma", FAIL, text, diagnose(LOST, *_format_manual_commands(observed, of_it[0])), [host])
    for pair in left:
        ways = [one for one in lost if _get_host_pair(one) == pair]
        text = _(
            "RDMA over {way}{others} failed: {why}",
            way=_format_path(ways[0]),
            others=format_more(ways),
            why=_explain_outcome(outcomes[ways[0]]),
        )
        yield make_outlier("rdma", FAIL, text, diagnose(LOST, *_format_manual_commands(observed, ways[0])), pair)


def _find_undetermined_paths(
    observed: PeerObservations, outcomes: Mapping[RdmaTrial, RdmaOutcome]
) -> Iterator[Outlier]:
    for kind, words in UNDETERMINED_ADVICE.items():
        ways = [one for one, end in outcomes.items() if end.kind is kind]
        if ways:
            reason = outcomes[ways[0]].why or _("unreadable output")
            text = _(
                "{tool} gave no result for {way}{others}: {reason}",
                tool=ways[0].tool,
                way=_format_path(ways[0]),
                others=format_more(ways),
                reason=reason,
            )
            yield make_outlier(
                "rdma", UNKNOWN, text, diagnose(words, *_format_manual_commands(observed, ways[0])), _list_hosts(ways)
            )


def _find_slow_paths(observed: PeerObservations, outcomes: Mapping[RdmaTrial, RdmaOutcome]) -> Iterator[Outlier]:
    """Report paths that were slow in a round and alone."""
    again = [one for one in rdma_rounds.find_slow_trials(outcomes) if one in observed.rdma.again]
    groups = rdma_rounds.group_comparable(outcomes)
    words = _("Check the port's speed and errors (ibstat, perfquery), its slot (lspci -vv: LnkSta) and the switch.")
    for one in again:
        usual = next(rdma_rounds.find_usual_outcome(outcomes, listed) for listed in groups if one in listed)
        text = _(
            "{way} over RDMA: {figure}; {usual} is typical",
            way=_format_path(one),
            figure=_format_figure(outcomes[one]),
            usual=_format_figure(usual),
        )
        yield make_outlier(
            "rdma", WARN, text, diagnose(words, *_format_manual_commands(observed, one)), [one.a.host, one.b.host]
        )


def _describe_healthy_paths(outcomes: Mapping[RdmaTrial, RdmaOutcome]) -> Outlier:
    by_tool: dict[str, list[RdmaOutcome]] = {}
    for one, end in outcomes.items():
        by_tool.setdefault(one.tool, []).append(end)
    figures = join("; ", (_describe_range(tool, ends) for tool, ends in by_tool.items()))
    ports = {(end.host, end.name) for one in outcomes for end in (one.a, one.b)}
    return make_passed(
        "rdma",
        _(
            "{ports_count} ports can reach each other over RDMA; {paths_count} paths: {figures}",
            ports_count=len(ports),
            paths_count=len(outcomes),
            figures=figures,
        ),
    )


def _describe_range(tool: str, ends: list[RdmaOutcome]) -> Message:
    rates = [end.rate for end in ends if end.rate is not None]
    times = [end.time_s for end in ends if end.time_s is not None]
    if not rates and not times:
        return verbatim(tool)
    lowest, highest = (
        (format_rate(min(rates)), format_rate(max(rates))) if rates else map(_format_time, (min(times), max(times)))
    )
    return _("{tool} {low} to {high}", tool=tool, low=lowest, high=highest)


def _format_figure(end: RdmaOutcome) -> str:
    return format_rate(end.rate) if end.rate is not None else _format_time(end.time_s or 0.0)


def _format_time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def _explain_outcome(end: RdmaOutcome) -> str:
    return _("not finished within {try_s:g} s", try_s=rdma_rounds.TRY_S) if end.kind is RdmaVerdict.LATE else end.why


def _get_host_pair(one: RdmaTrial) -> pairing.HostPair:
    return one.a.host, one.b.host


def _format_endpoint(end: RdmaEndpoint) -> str:
    return f"{end.host} {end.name}"


def _format_path(one: RdmaTrial) -> str:
    return f"{_format_endpoint(one.a)} -> {_format_endpoint(one.b)}"


def _list_hosts(ways: Iterable[RdmaTrial]) -> list[str]:
    return list(dict.fromkeys(host for one in ways for host in (one.a.host, one.b.host)))


def _format_manual_commands(observed: PeerObservations, one: RdmaTrial) -> tuple[str, str]:
    """Return the two commands to paste, the listening side first."""
    listens, calls = (
        rdma_tools.build_listen_command(one),
        rdma_tools.build_call_command(one, observed.about[one.b.host].address, 18515),
    )
    there = ["18515" if word == "PORT" else word for word in listens]
    return shlex.join(["ssh", one.b.host, *there]), shlex.join(["ssh", one.a.host, *calls])

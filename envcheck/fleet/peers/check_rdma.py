"""Whether hosts reach each other by RDMA: port to port, as far as their tools can say."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from envcheck.core.host_names import fold_hosts
from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers import pairing, rdma, rdma_rounds
from envcheck.fleet.peers.check_bandwidth import rate_told
from envcheck.fleet.peers.peer_messages import BLOCKED, FAIL, NOT_APPLICABLE, UNKNOWN, WARN, fine, more, odd
from envcheck.fleet.peers.peer_tests import Seen
from envcheck.fleet.peers.rdma import End, Try
from envcheck.fleet.peers.rdma_output import Kind, Outcome

SHOWN = 4
LOST = "Look at cable, switch, VLAN and subnet manager, with RoCE at GID index, routes and PFC, too; then by hand:"
UNTOLD = {
    Kind.UNMET: "Open TCP between the hosts for the tools' own talk (ports 18515 on), or try by hand:",
    Kind.UNABLE: "Let who asks open /dev/infiniband there and lock memory (ulimit -l unlimited); then by hand:",
    Kind.UNREAD: "Try it by hand:",
}


def crossed(seen: Seen) -> Iterator[Odd]:
    """Nothing is called well of which a part was lost or could not be told."""
    found = seen.rdma
    gone = {one for one in found.outcomes if {one.a.host, one.b.host} & seen.gone.keys()}
    outcomes = {one: end for one, end in {**found.outcomes, **found.again}.items() if one not in gone}
    bad = [*_lacking(seen), *_lost(seen, outcomes), *_untold(seen, outcomes), *_slow(seen, outcomes)]
    yield from bad
    if outcomes and not any(one.finding.status in (FAIL, UNKNOWN) for one in bad):
        yield _well(outcomes)


def _lacking(seen: Seen) -> Iterator[Odd]:
    """Hosts without what the others have: devices, ports that are up, tools, an answer."""
    found = seen.rdma
    if silent := [host for host in found.silent if host not in seen.gone]:
        yield odd("rdma", UNKNOWN, f"{fold_hosts(silent)} did not say which RDMA devices it has", "Ask again.", silent)
    having = [host for host, ends in found.ends.items() if ends]
    bare = [host for host in found.ends if host not in having]
    if not having:
        down = [host for host, has in found.has.items() if has.ports]
        why = "no port of InfiniBand or RoCE is active" if down else "no host has an RDMA device"
        if found.has:
            yield odd("rdma", NOT_APPLICABLE, why, "")
    elif bare:
        words = "Bring its port up (ibstat), or leave RDMA aside on all: NCCL_IB_DISABLE=1, FLAGCX_USE_HOST_COMM=1."
        yield odd(
            "rdma", WARN, f"{fold_hosts(bare)} has no active RDMA port, {fold_hosts(having)} has", words, bare, "ibstat"
        )
    if shut := [host for host in found.shut if host not in seen.gone]:
        one = odd("rdma", BLOCKED, f"RDMA was not tried with {fold_hosts(shut)}: fleet.open tells why", "", shut)
        yield replace(one, finding=replace(one.finding, blocked_by="fleet.open"))
    if found.toolless:
        yield _toolless(seen)


def _toolless(seen: Seen) -> Odd:
    """Of two that have no tool in common, those that have none at all are named before those that have another."""
    hosts = list(dict.fromkeys(host for pair in seen.rdma.toolless for host in pair))
    without = [host for host in hosts if not seen.rdma.has[host].tools]
    packages = ", ".join(dict.fromkeys(tool.package for tool in rdma.TOOLS.values()))
    if without:
        text = f"RDMA could not be tried: {fold_hosts(without)} has none of {', '.join(rdma.TOOLS)}"
    else:
        text = f"RDMA could not be tried between {fold_hosts(hosts)}: no tool or kind of port in common"
    return odd("rdma", UNKNOWN, text, f"Install one of {packages} on all of them.", without or hosts)


def _lost(seen: Seen, outcomes: Mapping[Try, Outcome]) -> Iterator[Odd]:
    """A host with which most is lost is named with its ports, and what this does not explain as the way it is."""
    lost = [one for one, end in outcomes.items() if end.kind in (Kind.LOST, Kind.LATE)]
    hosts, left = pairing.blamed(dict.fromkeys(map(_met, lost)), dict.fromkeys(map(_met, outcomes)))
    for host in hosts:
        of_it = [one for one in lost if host in _met(one) and not set(_met(one)) & set(hosts[: hosts.index(host)])]
        partners = fold_hosts(other for one in of_it for other in _met(one) if other != host)
        ports = list(dict.fromkeys(end.name for one in of_it for end in (one.a, one.b) if end.host == host))
        what = f"{', '.join(ports[:SHOWN])}{more(ports, SHOWN)} of {host}"
        text = f"{what} does not come through by RDMA with {partners}: {_why(outcomes[of_it[0]])}"
        yield odd("rdma", FAIL, text, LOST, [host], *_by_hand(seen, of_it[0]))
    for pair in left:
        ways = [one for one in lost if _met(one) == pair]
        text = f"{_name(ways[0])}{more(ways)} does not come through by RDMA: {_why(outcomes[ways[0]])}"
        yield odd("rdma", FAIL, text, LOST, pair, *_by_hand(seen, ways[0]))


def _untold(seen: Seen, outcomes: Mapping[Try, Outcome]) -> Iterator[Odd]:
    for kind, words in UNTOLD.items():
        ways = [one for one, end in outcomes.items() if end.kind is kind]
        if ways:
            said = outcomes[ways[0]].why or "nothing that could be read"
            text = f"{ways[0].tool} could not say for {_name(ways[0])}{more(ways)}: {said}"
            yield odd("rdma", UNKNOWN, text, words, _hosts(ways), *_by_hand(seen, ways[0]))


def _slow(seen: Seen, outcomes: Mapping[Try, Outcome]) -> Iterator[Odd]:
    """What was slow among others, and is so alone."""
    again = [one for one in rdma_rounds.slow(outcomes) if one in seen.rdma.again]
    groups = rdma_rounds.kinds(outcomes)
    words = "Look at the port's speed and errors (ibstat, perfquery), its slot (lspci -vv: LnkSta) and the switch."
    for one in again:
        usual = next(rdma_rounds.usual(outcomes, listed) for listed in groups if one in listed)
        text = f"{_name(one)} by RDMA: {_figure(outcomes[one])}, {_figure(usual)} is usual"
        yield odd("rdma", WARN, text, words, [one.a.host, one.b.host], *_by_hand(seen, one))


def _well(outcomes: Mapping[Try, Outcome]) -> Odd:
    by_tool: dict[str, list[Outcome]] = {}
    for one, end in outcomes.items():
        by_tool.setdefault(one.tool, []).append(end)
    told = "; ".join(f"{tool}{_range(ends)}" for tool, ends in by_tool.items())
    ports = {(end.host, end.name) for one in outcomes for end in (one.a, one.b)}
    return fine("rdma", f"{len(ports)} ports reach each other by RDMA, {len(outcomes)} ways: {told}")


def _range(ends: list[Outcome]) -> str:
    rates = [end.rate for end in ends if end.rate is not None]
    times = [end.time_s for end in ends if end.time_s is not None]
    if rates:
        return f" {rate_told(min(rates))} to {rate_told(max(rates))}"
    return f" {_time(min(times))} to {_time(max(times))}" if times else ""


def _figure(end: Outcome) -> str:
    return rate_told(end.rate) if end.rate is not None else _time(end.time_s or 0.0)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def _why(end: Outcome) -> str:
    return f"no end within {rdma_rounds.TRY_S:g} s" if end.kind is Kind.LATE else end.why


def _met(one: Try) -> pairing.Pair:
    return one.a.host, one.b.host


def _end(end: End) -> str:
    return f"{end.host} {end.name}"


def _name(one: Try) -> str:
    return f"{_end(one.a)} -> {_end(one.b)}"


def _hosts(ways: Iterable[Try]) -> list[str]:
    return list(dict.fromkeys(host for one in ways for host in (one.a.host, one.b.host)))


def _by_hand(seen: Seen, one: Try) -> tuple[str, str]:
    """The same, to be pasted: the listening side first."""
    listens, calls = rdma.listens(one), rdma.calls(one, seen.about[one.b.host].address, 18515)
    there = ["18515" if word == "PORT" else word for word in listens]
    return shlex.join(["ssh", one.b.host, *there]), shlex.join(["ssh", one.a.host, *calls])

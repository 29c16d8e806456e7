"""Checks of reverse lookups: the names of the hosts' addresses, as the other hosts see them.

Launchers that are given addresses do not use them.  torchrun without --local-addr does: its first node sends all
others its name from socket.getfqdn(), which is the reverse name of its address (torch 2.13,
elastic/rendezvous/api.py).  So a problem is a name of another host, a name that resolves elsewhere, or one that only
some hosts have; an address without a name on any host is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envcheck.core.host_names import fold_hosts
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import diagnose, manual
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers.agent_answers import AgentInfo, ReverseName
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import UNKNOWN, WARN, make_outlier, make_passed
from envcheck.fleet.peers.pairing import HostPair

WORDS = _("Map each address to the name of its host in DNS (PTR), or in /etc/hosts on all hosts.")
LATE = _("Check the name servers in /etc/resolv.conf on these hosts; launchers that use addresses do not need them.")


def check_addresses(observed: PeerObservations) -> Iterator[Outlier]:
    """Report wrong, uneven and timed-out reverse names."""
    reverse_names = {pair: back for pair, back in observed.back.items() if back is not None}
    found = [*_find_wrong_names(observed, reverse_names), *_find_uneven_names(reverse_names)]
    yield from found
    if late := dict.fromkeys(host for (host, _unused), back in observed.back.items() if back is None):
        words = _("reverse lookup of the other hosts' addresses timed out on {late}", late=fold_hosts(late))
        yield make_outlier("addresses", UNKNOWN, words, manual(LATE), late)
    elif reverse_names and not found:
        yield _describe_healthy_names(reverse_names)


def _describe_healthy_names(reverse_names: dict[HostPair, ReverseName]) -> Outlier:
    named = {other for (_unused, other), back in reverse_names.items() if back.names}
    bare = {other for _unused, other in reverse_names} - named
    if not named:
        return make_passed(
            "addresses", _("the addresses of {bare_count} hosts have no reverse name on any host", bare_count=len(bare))
        )
    if bare:
        seen = _(
            "{count} addresses resolve back to their host names; {bare} have no name",
            count=len(named),
            bare=fold_hosts(sorted(bare)),
        )
    else:
        seen = _("{count} addresses resolve back to their host names", count=len(named))
    return make_passed("addresses", seen)


def _find_wrong_names(observed: PeerObservations, reverse_names: dict[HostPair, ReverseName]) -> Iterator[Outlier]:
    """Report each wrong name once, with all hosts that see it."""
    asked: dict[tuple[str, Message], list[str]] = {}
    for (host, other), back in reverse_names.items():
        if why := _explain_wrong_name(observed.about, other, back):
            asked.setdefault((other, why), []).append(host)
    for (other, why), hosts in asked.items():
        look = f"getent hosts {observed.about[other].address}"
        yield make_outlier(
            "addresses",
            WARN,
            _(
                "on {hosts}, the address of {other} resolves back to {why}",
                hosts=fold_hosts(hosts),
                other=other,
                why=why,
            ),
            diagnose(WORDS, look),
            hosts,
        )


def _explain_wrong_name(about: dict[str, AgentInfo], other: str, back: ReverseName) -> Message:
    """Return what is wrong with the reverse name; "" for the host's own name, with or without domain, and for none."""
    if not back.names or _is_own_name(about[other], back.names):
        return NOTHING
    name = back.names[0]
    if thief := next((host for host, one in about.items() if host != other and _is_own_name(one, back.names)), ""):
        return _("{name}, the name of {thief}", name=name, thief=thief)
    if not back.leads:
        return _("{name}, which does not resolve", name=name)
    if not {*about[other].addresses, about[other].address} & {*back.leads}:
        return _("{name}, which resolves to {leads}", name=name, leads=back.leads[0])
    return NOTHING


def _is_own_name(one: AgentInfo, names: Iterable[str]) -> bool:
    return one.hostname.partition(".")[0].lower() in {name.partition(".")[0].lower() for name in names}


def _find_uneven_names(reverse_names: dict[HostPair, ReverseName]) -> Iterator[Outlier]:
    """Report addresses that have a name on some hosts only: files that differ between hosts."""
    named = {other for (_unused, other), back in reverse_names.items() if back.names}
    lacking: dict[str, list[str]] = {}
    for (host, other), back in reverse_names.items():
        if other in named and not back.names:
            lacking.setdefault(host, []).append(other)
    for others in dict.fromkeys(tuple(listed) for listed in lacking.values()):
        hosts = [host for host, listed in lacking.items() if tuple(listed) == others]
        words = _(
            "on {hosts}, the addresses of {others} have no reverse name, but they have one on other hosts",
            hosts=fold_hosts(hosts),
            others=fold_hosts(others),
        )
        yield make_outlier("addresses", WARN, words, manual(WORDS), hosts)

"""Whose the hosts' addresses are, as the others are told: from the address back to the name.

Launchers that are given addresses never ask.  torchrun does without --local-addr: its first node tells all others its
name as socket.getfqdn() has it, which is what its address leads back to (torch 2.13,
elastic/rendezvous/api.py).  So a name matters that is another host's, that leads elsewhere from there, or that some
of the hosts have and others do not; that no host has a name for an address hurts nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envcheck.core.host_names import fold_hosts
from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers.agent_answers import About, Back
from envcheck.fleet.peers.pairing import Pair
from envcheck.fleet.peers.peer_messages import UNKNOWN, WARN, fine, odd
from envcheck.fleet.peers.peer_tests import Seen

WORDS = "Give each address its own host's name in DNS (PTR), or in /etc/hosts on all hosts."
LATE = "Look at the name servers in /etc/resolv.conf there; launchers that are given addresses need none."


def addresses(seen: Seen) -> Iterator[Odd]:
    told = {pair: back for pair, back in seen.back.items() if back is not None}
    found = [*_wrong(seen, told), *_uneven(told)]
    yield from found
    if late := dict.fromkeys(host for (host, _), back in seen.back.items() if back is None):
        words = f"nobody says on {fold_hosts(late)} which names the others' addresses have"
        yield odd("addresses", UNKNOWN, words, LATE, late)
    elif told and not found:
        yield _well(told)


def _well(told: dict[Pair, Back]) -> Odd:
    named = {other for (_, other), back in told.items() if back.names}
    bare = {other for _, other in told} - named
    if not named:
        return fine("addresses", f"the addresses of {len(bare)} hosts have no names, on any of them")
    more = f"; {fold_hosts(sorted(bare))} have none" if bare else ""
    return fine("addresses", f"{len(named)} addresses lead back to their hosts' names{more}")


def _wrong(seen: Seen, told: dict[Pair, Back]) -> Iterator[Odd]:
    """Each name that is wrong once, with all hosts that are told it."""
    asked: dict[tuple[str, str], list[str]] = {}
    for (host, other), back in told.items():
        if why := _why(seen.about, other, back):
            asked.setdefault((other, why), []).append(host)
    for (other, why), hosts in asked.items():
        look = f"getent hosts {seen.about[other].address}"
        yield odd(
            "addresses", WARN, f"on {fold_hosts(hosts)} the address of {other} leads back to {why}", WORDS, hosts, look
        )


def _why(about: dict[str, About], other: str, back: Back) -> str:
    """ "" for a name of its own, with a domain or without, and for none."""
    if not back.names or _is(about[other], back.names):
        return ""
    name = back.names[0]
    if thief := next((host for host, one in about.items() if host != other and _is(one, back.names)), ""):
        return f"{name}, which is {thief}"
    if not back.leads:
        return f"{name}, which leads nowhere"
    if not {*about[other].addresses, about[other].address} & {*back.leads}:
        return f"{name}, which leads to {back.leads[0]}"
    return ""


def _is(one: About, names: Iterable[str]) -> bool:
    return one.hostname.partition(".")[0].lower() in {name.partition(".")[0].lower() for name in names}


def _uneven(told: dict[Pair, Back]) -> Iterator[Odd]:
    """Addresses that have a name on some hosts and none on others: files of hosts that differ."""
    named = {other for (_, other), back in told.items() if back.names}
    lacking: dict[str, list[str]] = {}
    for (host, other), back in told.items():
        if other in named and not back.names:
            lacking.setdefault(host, []).append(other)
    for others in dict.fromkeys(tuple(listed) for listed in lacking.values()):
        hosts = [host for host, listed in lacking.items() if tuple(listed) == others]
        words = f"on {fold_hosts(hosts)} the addresses of {fold_hosts(others)} have no name, and have one elsewhere"
        yield odd("addresses", WARN, words, WORDS, hosts)

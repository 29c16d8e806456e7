"""Who can be tried at all, by which names hosts know each other, and their clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Status
from envcheck.fleet import clocks
from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers.peer_messages import FAIL, UNKNOWN, WARN, fine, odd
from envcheck.fleet.peers.peer_tests import Seen

LOOPBACK = re.compile(r"127\.|::1$")
SHOWN = 4
DRIFT_S = 0.1


def gone(seen: Seen) -> Iterator[Odd]:
    for host, why in seen.gone.items():
        words = "Look whether it is up, and ask again: it answered a moment ago."
        yield odd("between", FAIL, f"{host} could not be tried with the others: {why}", words, [host])


def names(seen: Seen) -> Iterator[Odd]:
    """A name that leads elsewhere fails; one that leads nowhere may do, where launchers are given addresses."""
    wrong: dict[tuple[str, str, Status], list[str]] = {}
    told = {pair: found for pair, found in seen.names.items() if found is not None}
    for (host, other), found in told.items():
        there = {*seen.about[other].addresses, seen.about[other].address}
        if not found:
            wrong.setdefault((other, "nowhere", WARN), []).append(host)
        elif not there & set(found):
            loop = all(LOOPBACK.match(a) for a in found)
            to = f"{found[0]}, loopback" if loop else f"{found[0]}, which is not its address"
            wrong.setdefault((other, to, FAIL), []).append(host)
    words = "Put all names with their addresses into DNS, or into /etc/hosts on all hosts."
    nowhere = [(other, hosts) for (other, to, _), hosts in wrong.items() if to == "nowhere"]
    if nowhere:
        names = fold_hosts(other for other, _ in nowhere)
        askers = fold_hosts(dict.fromkeys(chain.from_iterable(hosts for _, hosts in nowhere)))
        yield odd("names", WARN, f"{names}: the own names lead nowhere, asked on {askers}", words)
    for (other, to, grade), hosts in wrong.items():
        if to != "nowhere":
            name = seen.about[other].hostname
            look = f"getent hosts {name}" if re.fullmatch(r"[\w.-]+", name) else "getent hosts"
            yield odd("names", grade, f"on {fold_hosts(hosts)} the name of {other} leads to {to}", words, hosts, look)
    if len(told) < len(seen.names):
        late = dict.fromkeys(host for (host, _), found in seen.names.items() if found is None)
        words = "Look at the name servers in /etc/resolv.conf there."
        yield odd("names", UNKNOWN, f"names are not told in time on {fold_hosts(late)}", words, late)
    elif told and not wrong:
        yield fine("names", f"{len({other for _, other in told})} names lead to their hosts, asked on all")


def clocks_told(seen: Seen) -> Iterator[Odd]:
    """Twice: a clock that is far is named by the later look, one that ran away between the two by both."""
    if not seen.clocks:
        return
    first, last = seen.clocks[0], seen.clocks[-1]
    found = clocks.odd({**first, **last})
    yield from found
    moved = {h: last[h].middle_s - first[h].middle_s for h in first.keys() & last.keys()}
    ran = [
        h
        for h in sorted(moved)
        if last[h].low_s - first[h].high_s > DRIFT_S or first[h].low_s - last[h].high_s > DRIFT_S
    ]
    if ran:
        told = ", ".join(f"{h} {moved[h]:+.2f} s" for h in ran[:SHOWN])
        yield odd("clock", WARN, f"clocks that moved while they were watched: {told}", clocks.WORDS, ran, "timedatectl")
    if last and not found and not ran:
        middles = [o.middle_s for o in last.values()]
        apart, sure = max(middles) - min(middles), max(o.high_s - o.low_s for o in last.values()) / 2
        yield fine("clock", f"{apart:.3f} s apart at most, known to {sure:.3f} s; looked at twice")

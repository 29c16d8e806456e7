"""Checks of host names and clocks between hosts, and of hosts that dropped out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from envcheck.core.host_names import fold_hosts
from envcheck.core.messages import Message, _, join
from envcheck.core.model import diagnose, fix, manual
from envcheck.fleet import clocks
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import FAIL, UNKNOWN, WARN, make_outlier, make_passed

LOOPBACK = re.compile(r"127\.|::1$")
SHOWN = 4
DRIFT_S = 0.1


def check_lost_hosts(observed: PeerObservations) -> Iterator[Outlier]:
    """Report hosts that dropped out during the tests."""
    for host, why in observed.gone.items():
        words = _("Check that the host is up, and try again: it responded a moment ago.")
        yield make_outlier(
            "between",
            FAIL,
            _("{host} could not be tested with the other hosts: {why}", host=host, why=why),
            manual(words),
            [host],
        )


def check_host_names(observed: PeerObservations) -> Iterator[Outlier]:
    """Fail if a name resolves to another host; warn if it does not resolve, as launchers may be given addresses."""
    unresolved: dict[str, list[str]] = {}
    wrong: dict[tuple[str, Message], list[str]] = {}
    answered = {pair: found for pair, found in observed.names.items() if found is not None}
    for (host, other), found in answered.items():
        there = {*observed.about[other].addresses, observed.about[other].address}
        if not found:
            unresolved.setdefault(other, []).append(host)
        elif not there & set(found):
            loop = all(LOOPBACK.match(a) for a in found)
            to = (
                _("{found} (loopback)", found=found[0])
                if loop
                else _("{found}, not an address of this host", found=found[0])
            )
            wrong.setdefault((other, to), []).append(host)
    words = _("Add all host names and addresses to DNS, or to /etc/hosts on all hosts.")
    if unresolved:
        names = fold_hosts(unresolved)
        askers = fold_hosts(dict.fromkeys(chain.from_iterable(unresolved.values())))
        yield make_outlier(
            "names",
            WARN,
            _("{names}: host names do not resolve on {askers}", names=names, askers=askers),
            manual(words),
        )
    for (other, to), hosts in wrong.items():
        name = observed.about[other].hostname
        look = f"getent hosts {name}" if re.fullmatch(r"[\w.-]+", name) else "getent hosts"
        yield make_outlier(
            "names",
            FAIL,
            _("on {hosts}, the name of {other} resolves to {to}", hosts=fold_hosts(hosts), other=other, to=to),
            diagnose(words, look),
            hosts,
        )
    if len(answered) < len(observed.names):
        late = dict.fromkeys(host for (host, _unused), found in observed.names.items() if found is None)
        words = _("Check the name servers in /etc/resolv.conf on these hosts.")
        yield make_outlier(
            "names", UNKNOWN, _("name resolution timed out on {late}", late=fold_hosts(late)), manual(words), late
        )
    elif answered and not wrong and not unresolved:
        yield make_passed(
            "names",
            _("{count} host names resolve correctly on all hosts", count=len({other for _unused, other in answered})),
        )


def check_clocks(observed: PeerObservations) -> Iterator[Outlier]:
    """Report clock offsets of the later of two measurements, and clocks that drifted between them."""
    if not observed.clocks:
        return
    first, last = observed.clocks[0], observed.clocks[-1]
    found = clocks.find_outliers({**first, **last})
    yield from found
    moved = {h: last[h].middle_s - first[h].middle_s for h in first.keys() & last.keys()}
    ran = [
        h
        for h in sorted(moved)
        if last[h].low_s - first[h].high_s > DRIFT_S or first[h].low_s - last[h].high_s > DRIFT_S
    ]
    if ran:
        drifts = join(", ", (f"{h} {moved[h]:+.2f} s" for h in ran[:SHOWN]))
        yield make_outlier(
            "clock",
            WARN,
            _("clocks drifted during the test: {drifts}", drifts=drifts),
            fix(clocks.WORDS, "timedatectl"),
            ran,
        )
    if last and not found and not ran:
        middles = [o.middle_s for o in last.values()]
        apart, sure = max(middles) - min(middles), max(o.high_s - o.low_s for o in last.values()) / 2
        yield make_passed(
            "clock",
            _("at most {apart:.3f} s apart, measured to within {sure:.3f} s; measured twice", apart=apart, sure=sure),
        )

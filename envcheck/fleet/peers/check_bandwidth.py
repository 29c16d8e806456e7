"""Checks of bandwidth and latency between hosts, and of the cards' own ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from envcheck.core.findings import format_ranges
from envcheck.core.messages import _, join
from envcheck.core.model import diagnose, manual
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers import pairing
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import FAIL, UNKNOWN, WARN, format_more, make_outlier, make_passed
from envcheck.fleet.peers.pairing import HostPair, PairSpeed

SHOWN = 4
LOSS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)% packet loss")


def check_speed(observed: PeerObservations) -> Iterator[Outlier]:
    """Report slow paths; a path that was slow in its round counts only if it is slow alone too."""
    if not observed.ways:
        return
    rate, rtt = pairing.find_usual_speed(observed.ways) if len(observed.ways) > 1 else (0.0, 0.0)
    ways = {**observed.ways, **observed.again}
    slow = [pair for pair, way in observed.again.items() if pairing.is_slow(way, rate)]
    late = [pair for pair, way in observed.again.items() if pairing.is_late(way, rtt)]
    yield from _find_slow_hosts("bandwidth", slow, observed, lambda way: format_rate(way.rate), format_rate(rate))
    yield from _find_slow_hosts(
        "latency", late, observed, lambda way: f"{way.rtt_s * 1e3:.2f} ms", f"{rtt * 1e3:.2f} ms"
    )
    if not slow and not late:
        rates, times = [w.rate for w in ways.values()], [w.rtt_s for w in ways.values()]
        figures = _(
            "{slowest} to {fastest}, {least:.2f} to {most:.2f} ms",
            slowest=format_rate(min(rates)),
            fastest=format_rate(max(rates)),
            least=min(times) * 1000.0,
            most=max(times) * 1000.0,
        )
        yield make_passed(
            "bandwidth", _("{paths_count} paths: {figures}; TCP, one stream", paths_count=len(ways), figures=figures)
        )


def _find_slow_hosts(
    name: str, pairs: Sequence[HostPair], observed: PeerObservations, shown: Callable[[PairSpeed], str], usual: str
) -> Iterator[Outlier]:
    untried = set(pairing.find_suspects(observed.ways)) - observed.again.keys()  # too many to repeat each alone
    hosts, left = pairing.blame_hosts(pairs, [pair for pair in observed.ways if pair not in untried])
    words = _(
        "Check the cable, port, negotiated speed (ethtool) and load of the host; one slow host slows every collective."
    )
    for host in hosts:
        of_it = [pair for pair in pairs if host in pair]
        text = _(
            "{host}: {again} on {of_it_count} of its paths; {usual} is typical",
            host=host,
            again=shown(observed.again[of_it[0]]),
            of_it_count=len(of_it),
            usual=usual,
        )
        yield make_outlier(name, WARN, text, manual(words), [host])
    if left:
        paths = join(", ", (f"{a} -> {b} {shown(observed.again[a, b])}" for a, b in left[:SHOWN]))
        text = _("{ways}{others}; {usual} is typical", ways=paths, others=format_more(left, SHOWN), usual=usual)
        yield make_outlier(name, WARN, text, manual(words))


def check_card_pings(observed: PeerObservations) -> Iterator[Outlier]:
    """Report pings with packet loss in hccn_tool's output; output without a loss figure is unknown."""
    lost: dict[HostPair, list[int]] = {}
    untold: dict[HostPair, list[int]] = {}
    for (a, b, number), (_unused, text) in observed.pinged.items():
        loss = LOSS.search(text)
        if loss and float(loss[1]) > 0:
            lost.setdefault((a, b), []).append(number)
        elif not loss:
            untold.setdefault((a, b), []).append(number)
    words = _("Check the ports, VLAN and routes of the cards (hccn_tool -link, -route, -gateway), and the switch.")
    for (a, b), cards in lost.items():
        look = f"hccn_tool -i {cards[0]} -ping -g address ADDRESS"
        text = _(
            "cards {cards} of {a} cannot reach the cards of {b} through their own ports",
            cards=format_ranges(sorted(cards)),
            a=a,
            b=b,
        )
        yield make_outlier("hccn", FAIL, text, diagnose(words, look), [a])
    for (a, b), cards in untold.items():
        first = observed.pinged[a, b, cards[0]][1].strip().splitlines()[:1]
        text = _(
            "hccn_tool ping from {a} to {b}: unreadable output: {first}",
            a=a,
            b=b,
            first=first[0][:80] if first else _("no address"),
        )
        yield make_outlier(
            "hccn",
            UNKNOWN,
            text,
            diagnose(_("Test it manually."), f"hccn_tool -i {cards[0]} -ping -g address ADDRESS"),
            [a],
        )
    if observed.pinged and not lost and not untold:
        yield make_passed(
            "hccn",
            _(
                "{pinged_count} cards can reach the cards of the next host through their own ports",
                pinged_count=len(observed.pinged),
            ),
        )


def format_rate(rate: float) -> str:
    """Return bytes per second as bits per second, the unit of networks."""
    return f"{rate * 8 / 1e9:.1f} Gbit/s" if rate > 1e8 / 8 else f"{rate * 8 / 1e6:.1f} Mbit/s"

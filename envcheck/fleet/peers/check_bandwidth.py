"""How fast and how soon, and whether the cards' own ports reach each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from envcheck.core.findings import ranges
from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers import pairing
from envcheck.fleet.peers.pairing import Pair, Way
from envcheck.fleet.peers.peer_messages import FAIL, UNKNOWN, WARN, fine, more, odd
from envcheck.fleet.peers.peer_tests import Seen

SHOWN = 4
LOSS = re.compile(r"(\d+(?:\.\d+)?)% packet loss")


def measured(seen: Seen) -> Iterator[Odd]:
    """What was odd in its round counts when it is odd alone, too."""
    if not seen.ways:
        return
    rate, rtt = pairing.usual(seen.ways) if len(seen.ways) > 1 else (0.0, 0.0)
    ways = {**seen.ways, **seen.again}
    slow = [pair for pair, way in seen.again.items() if pairing.slow(way, rate)]
    late = [pair for pair, way in seen.again.items() if pairing.late(way, rtt)]
    yield from _outliers("bandwidth", slow, seen, lambda way: rate_told(way.rate), rate_told(rate))
    yield from _outliers("latency", late, seen, lambda way: f"{way.rtt_s * 1e3:.2f} ms", f"{rtt * 1e3:.2f} ms")
    if not slow and not late:
        rates, times = [w.rate for w in ways.values()], [w.rtt_s for w in ways.values()]
        told = (
            f"{rate_told(min(rates))} to {rate_told(max(rates))}, {min(times) * 1e3:.2f} to {max(times) * 1e3:.2f} ms"
        )
        yield fine("bandwidth", f"{len(ways)} ways: {told}; over TCP, by one stream")


def _outliers(name: str, pairs: Sequence[Pair], seen: Seen, shown: Callable[[Way], str], usual: str) -> Iterator[Odd]:
    untried = set(pairing.suspects(seen.ways)) - seen.again.keys()  # there were too many to try each alone
    hosts, left = pairing.blamed(pairs, [pair for pair in seen.ways if pair not in untried])
    words = "Look at cable, port, negotiated speed (ethtool) and load there; one slow host slows every collective."
    for host in hosts:
        of_it = [pair for pair in pairs if host in pair]
        text = f"{host}: {shown(seen.again[of_it[0]])} with {len(of_it)} of its ways, {usual} is usual"
        yield odd(name, WARN, text, words, [host])
    if left:
        told = ", ".join(f"{a} -> {b} {shown(seen.again[a, b])}" for a, b in left[:SHOWN])
        yield odd(name, WARN, f"{told}{more(left, SHOWN)}; {usual} is usual", words)


def cards(seen: Seen) -> Iterator[Odd]:
    """hccn_tool's own words decide; a text that holds no loss is not told."""
    lost: dict[Pair, list[int]] = {}
    untold: dict[Pair, list[int]] = {}
    for (a, b, number), (_, text) in seen.pinged.items():
        loss = LOSS.search(text)
        if loss and float(loss[1]) > 0:
            lost.setdefault((a, b), []).append(number)
        elif not loss:
            untold.setdefault((a, b), []).append(number)
    words = "Look at the cards' ports, VLAN and routes (hccn_tool -link, -route, -gateway), and at the switch."
    for (a, b), cards in lost.items():
        look = f"hccn_tool -i {cards[0]} -ping -g address ADDRESS"
        text = f"cards {ranges(sorted(cards))} of {a} do not reach those of {b} by their own ports"
        yield odd("hccn", FAIL, text, words, [a], look)
    for (a, b), cards in untold.items():
        first = seen.pinged[a, b, cards[0]][1].strip().splitlines()[:1]
        text = (
            f"hccn_tool's ping from {a} to {b} says nothing that could be read: {first[0][:80] if first else 'nothing'}"
        )
        yield odd("hccn", UNKNOWN, text, "Try it by hand.", [a], f"hccn_tool -i {cards[0]} -ping -g address ADDRESS")
    if seen.pinged and not lost and not untold:
        yield fine("hccn", f"{len(seen.pinged)} cards reach the next host's by their own ports")


def rate_told(rate: float) -> str:
    """Bytes a second as networks are sold."""
    return f"{rate * 8 / 1e9:.1f} Gbit/s" if rate > 1e8 / 8 else f"{rate * 8 / 1e6:.1f} Mbit/s"

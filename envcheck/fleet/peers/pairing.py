"""Pairs of hosts in rounds, so that each host has one partner at a time; and which of the pairs are slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

Pair = tuple[str, str]
SLOW, LATE = 0.5, 3.0  # of what is usual
LATE_MORE_S = 0.0005  # and at least this much later: a switch more is no fault


@dataclass(frozen=True)
class Way:
    """From one host to another: how long a small message is under way and back, and bytes a second."""

    rtt_s: float
    rate: float


def rounds(hosts: Sequence[str], most: int) -> list[list[Pair]]:
    """The circle method: all against all in N - 1 rounds, of which the first `most` are enough."""
    ring: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    found = []
    for _ in range(min(most, len(ring) - 1)):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        found.append([(a, b) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def neighbours(hosts: Sequence[str]) -> list[Pair]:
    """Each host to the next and to the one before."""
    count = len(hosts)
    return list(dict.fromkeys((a, hosts[(n + step) % count]) for step in (1, -1) for n, a in enumerate(hosts)))


def suspects(ways: Mapping[Pair, Way]) -> list[Pair]:
    """The slowest first; of less than three ways none can be told from the others."""
    if len(ways) < 3:
        return []
    rate, rtt = usual(ways)
    odd = [pair for pair, way in ways.items() if slow(way, rate) or late(way, rtt)]
    return sorted(odd, key=lambda pair: ways[pair].rate)


def usual(ways: Mapping[Pair, Way]) -> tuple[float, float]:
    """The better quartile of the rates and of the times: one bad host of three spoils two thirds of all ways."""
    rates, times = sorted(way.rate for way in ways.values()), sorted(way.rtt_s for way in ways.values())
    return quantiles(rates, n=4, method="inclusive")[2], quantiles(times, n=4, method="inclusive")[0]


def slow(way: Way, usual_rate: float) -> bool:
    return way.rate < SLOW * usual_rate


def late(way: Way, usual_rtt_s: float) -> bool:
    return way.rtt_s > max(LATE * usual_rtt_s, usual_rtt_s + LATE_MORE_S)


def blamed(odd: Iterable[Pair], tried: Iterable[Pair]) -> tuple[list[str], list[Pair]]:
    """The hosts of which more than half of all ways are odd, and the odd ways that this does not explain.

    The host with most comes first: its partners' odd ways are explained by it, and blame nobody else.
    """
    left, ways = list(odd), list(tried)
    hosts: list[str] = []
    while left:
        counts = {host: sum(host in pair for pair in left) for host in dict.fromkeys(h for p in left for h in p)}
        worst = max(counts, key=lambda host: counts[host])
        of_it = sum(worst in pair for pair in ways)
        if counts[worst] < 2 or 2 * counts[worst] <= of_it or list(counts.values()).count(counts[worst]) > 1:
            break
        hosts.append(worst)
        left = [pair for pair in left if worst not in pair]
    return hosts, left

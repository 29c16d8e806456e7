"""Pair hosts in rounds, with one partner per host at a time; find slow pairs and the hosts to blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

HostPair = tuple[str, str]
SLOW, LATE = 0.5, 3.0  # factors of the typical rate and time
LATE_MORE_S = 0.0005  # and slower by at least this; one more switch is not a fault


@dataclass(frozen=True)
class PairSpeed:
    """From one host to another: round-trip time of a small message in seconds, and bytes per second."""

    rtt_s: float
    rate: float


def plan_rounds(hosts: Sequence[str], most: int) -> list[list[HostPair]]:
    """Return rounds by the circle method: all pairs in N - 1 rounds, of which the first `most` are used."""
    ring: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    found = []
    for _ in range(min(most, len(ring) - 1)):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        found.append([(a, b) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def pair_neighbours(hosts: Sequence[str]) -> list[HostPair]:
    """Pair each host with the next and the previous one."""
    count = len(hosts)
    return list(dict.fromkeys((a, hosts[(n + step) % count]) for step in (1, -1) for n, a in enumerate(hosts)))


def find_suspects(ways: Mapping[HostPair, PairSpeed]) -> list[HostPair]:
    """Return slow pairs, the slowest first; empty for less than three paths, which cannot be compared."""
    if len(ways) < 3:
        return []
    rate, rtt = find_usual_speed(ways)
    odd = [pair for pair, way in ways.items() if is_slow(way, rate) or is_late(way, rtt)]
    return sorted(odd, key=lambda pair: ways[pair].rate)


def find_usual_speed(ways: Mapping[HostPair, PairSpeed]) -> tuple[float, float]:
    """Return the better quartile of rates and times: one bad host of three slows two thirds of all paths."""
    rates, times = sorted(way.rate for way in ways.values()), sorted(way.rtt_s for way in ways.values())
    return quantiles(rates, n=4, method="inclusive")[2], quantiles(times, n=4, method="inclusive")[0]


def is_slow(way: PairSpeed, usual_rate: float) -> bool:
    """Return whether the rate is below half the typical one."""
    return way.rate < SLOW * usual_rate


def is_late(way: PairSpeed, usual_rtt_s: float) -> bool:
    """Return whether the round-trip time is over three times the typical one."""
    return way.rtt_s > max(LATE * usual_rtt_s, usual_rtt_s + LATE_MORE_S)


def blame_hosts(odd: Iterable[HostPair], tried: Iterable[HostPair]) -> tuple[list[str], list[HostPair]]:
    """Return the hosts of which more than half of all paths are bad, and bad paths that these do not explain.

    The host with most bad paths comes first; these paths then do not count against its partners.
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

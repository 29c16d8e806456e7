"""Whether devices that work together are directly linked, from the topology."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from envcheck.core.model import Topology


@dataclass(frozen=True)
class GroupVerdict:
    """Whether devices can work together; None if no document tells.

    `unlinked` are two devices without a link, and `groups` the linked sets of this size that the host has.
    """

    fits: bool | None
    unlinked: tuple[int, int] | None = None
    groups: tuple[tuple[int, ...], ...] = ()


def judge_group(topology: Topology, link: str, size: int, places: Iterable[int]) -> GroupVerdict:
    """Return whether the devices at these positions can work together.

    Up to `size` devices need a link of this type between each two of them; whole multiples of `size` work together
    across groups.  Other numbers, and hosts without any such link, are in no document.
    """
    chosen = sorted(set(places))
    if len(chosen) < 2 or (len(chosen) > size and len(chosen) % size == 0):
        return GroupVerdict(True)
    pair = find_unlinked_pair(topology, link, chosen)
    if pair is None:
        return GroupVerdict(True)
    groups = list_linked_sets(topology, link, len(chosen))
    has_links = any(link in row.values() for row in topology.matrix.values())
    return GroupVerdict(False if len(chosen) <= size and has_links else None, pair, groups)


def find_unlinked_pair(topology: Topology, link: str, places: Iterable[int]) -> tuple[int, int] | None:
    """Return the first two of these devices without a link of this type; None if each pair has one.

    `places` are positions in the matrix.  A link counts if the matrix shows it in one direction.
    """
    names = topology.names
    for left, right in combinations(sorted(places), 2):
        both = (names[left], names[right])
        shown = {topology.matrix.get(a, {}).get(b) for a, b in (both, both[::-1])}
        if link not in shown:
            return left, right
    return None


def list_linked_sets(topology: Topology, link: str, size: int) -> tuple[tuple[int, ...], ...]:
    """Return sets of `size` devices in which each pair has a link of this type; each device is in one set at most."""
    found: list[tuple[int, ...]] = []
    for first in range(len(topology.names)):
        if any(first in group for group in found):
            continue
        group = [first]
        for place in range(first + 1, len(topology.names)):
            if len(group) < size and find_unlinked_pair(topology, link, (*group, place)) is None:
                group.append(place)
        if len(group) == size:
            found.append(tuple(group))
    return tuple(found)


def group_by_module(found: Topology, link: str) -> tuple[tuple[int, ...], ...]:
    """Return groups of cards with direct links (type `link`) to each other, as positions in the matrix."""
    names, groups = found.names, []
    left = list(range(len(names)))
    while left:
        first = names[left[0]]
        rest = found.matrix.get(first, {})
        group = tuple(n for n in left if n == left[0] or rest.get(names[n]) == link)
        groups.append(group)
        left = [n for n in left if n not in group]
    return tuple(groups)


# How near two devices are by the link that the tool prints; all other words (NV12, HCCS, XL) are direct links.  SIO
# joins the two dies of an Atlas A3 module.
_NEARNESS = {"SYS": 0, "NA": 0, "NODE": 1, "PHB": 2, "PXB": 3, "PIX": 4, "SIO": 6}
_DIRECT, _SAME_MODULE = 5, 6


def choose_linked(topology: Topology | None, module_link: str, places: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `count` of these positions, those with the nearest links to each other; the lowest of equals.

    Where devices form two modules of `module_link` and one module has too few, the same ones of both are chosen: the
    collectives need pairs.
    """
    free = sorted(places)
    if topology is None or count < 2 or free[-1] >= len(topology.names):
        return tuple(free[:count])
    best = max((_grow_set(topology, first, free, count) for first in free), key=lambda each: each[:2])
    modules = group_by_module(topology, module_link) if module_link else ()
    if best[0] < _DIRECT and len(modules) == 2 and len(modules[0]) == len(modules[1]) and count % 2 == 0:
        pairs = [pair for pair in zip(*modules, strict=True) if set(pair) <= set(free)]
        if len(pairs) >= count // 2:
            return tuple(sorted(place for pair in pairs[: count // 2] for place in pair))
    return best[2]


def _grow_set(topology: Topology, first: int, free: Sequence[int], count: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (nearness of the farthest two, pairs of one module, positions) of the set that grows from `first`."""
    chosen: tuple[int, ...] = (first,)
    farthest, pairs = _SAME_MODULE, 0
    while len(chosen) < count:
        left = tuple(place for place in free if place not in chosen)
        ranks = {
            each: _rank_candidate(topology, each, chosen, left if len(chosen) < count - 1 else ()) for each in left
        }
        place = max((*ranks[each], each > first, -each) for each in left)[-1] * -1
        farthest, pairs = min(farthest, ranks[place][0]), pairs + ranks[place][1]
        chosen = (*chosen, place)
    return farthest, pairs, tuple(sorted(chosen))


def _rank_candidate(
    topology: Topology, place: int, chosen: Sequence[int], left: Sequence[int]
) -> tuple[int, int, bool]:
    """Return how good the device is as the next one: near, completes a module, begins one that `left` completes."""
    near = min(_measure_nearness(topology, place, other) for other in chosen)
    return near, _count_partners(topology, place, chosen), _count_partners(topology, place, left) > 0


def _count_partners(topology: Topology, place: int, others: Sequence[int]) -> int:
    """Return how many of the other devices are in the same module."""
    return sum(_measure_nearness(topology, place, each) == _SAME_MODULE for each in others if each != place)


def _measure_nearness(topology: Topology, one: int, other: int) -> int:
    names = topology.names
    link = topology.matrix.get(names[one], {}).get(names[other])
    return 0 if link is None else _NEARNESS.get(link, _DIRECT)

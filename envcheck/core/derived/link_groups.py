"""Whether devices that work together are directly linked, from the topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from envcheck.core.facts import VendorFacts
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


# How near two devices are by the link that the tool prints; all other words (NV12, HCCS, XL) are direct links.
_NEARNESS = {"SYS": 0, "NA": 0, "NODE": 1, "PHB": 2, "PXB": 3, "PIX": 4}
_DIRECT, _SAME_PACKAGE = 5, 6
_Nearness = Mapping[int, Mapping[int, int]]  # by position


def choose_linked(v: VendorFacts, places: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `count` of these positions, those with the nearest links to each other; the lowest of equals.

    Where devices form two modules and one module has too few, the same ones of both are chosen: the collectives need
    pairs.
    """
    free, topology = sorted(places), v.topology
    if topology is None or count < 2 or free[-1] >= len(topology.names):
        return tuple(free[:count])
    nearness = _measure_nearness(topology, v.vendor.package_link, free)
    found = (_grow_set(nearness, first, count) for first in free)
    farthest, _, chosen = max(found, key=lambda each: each[:2])
    modules = group_by_module(topology, v.vendor.module_link) if v.vendor.module_link else ()
    if farthest < _DIRECT and len(modules) == 2 and len(modules[0]) == len(modules[1]) and count % 2 == 0:
        pairs = [pair for pair in zip(*modules, strict=True) if set(pair) <= set(free)]
        if len(pairs) >= count // 2:
            return tuple(sorted(place for pair in pairs[: count // 2] for place in pair))
    return chosen


def _grow_set(nearness: _Nearness, first: int, count: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (nearness of the farthest two, pairs of one package, positions) of the set that grows from `first`.

    What the candidates are to the chosen devices is kept and not computed again for each step.
    """
    chosen, farthest, pairs = [first], _SAME_PACKAGE, 0
    near = {place: row[first] for place, row in nearness.items() if place != first}
    partners = {place: int(near[place] == _SAME_PACKAGE) for place in near}  # chosen devices of the same package
    companions = {place: list(row.values()).count(_SAME_PACKAGE) for place, row in nearness.items()}

    def rate_candidate(place: int) -> tuple[int, int, bool, bool, int]:
        """How near it is, whether it completes a package, whether it begins one that another device can complete."""
        begins_package = len(chosen) < count - 1 and partners[place] < companions[place]
        return near[place], partners[place], begins_package, place > first, -place

    while len(chosen) < count:
        best = max(near, key=rate_candidate)
        chosen.append(best)
        farthest, pairs = min(farthest, near.pop(best)), pairs + partners.pop(best)
        for place in near:
            link = nearness[place][best]
            if link < near[place]:
                near[place] = link
            partners[place] += link == _SAME_PACKAGE
    return farthest, pairs, tuple(sorted(chosen))


def _measure_nearness(topology: Topology, package_link: str, places: Sequence[int]) -> _Nearness:
    """Return how near each of the devices is to each other one, by position."""
    words = {**_NEARNESS, **({package_link: _SAME_PACKAGE} if package_link else {})}
    names = topology.names

    def measure_pair(one: int, other: int) -> int:
        link = topology.matrix.get(names[one], {}).get(names[other])
        return 0 if link is None else words.get(link, _DIRECT)

    return {one: {other: measure_pair(one, other) for other in places if other != one} for one in places}

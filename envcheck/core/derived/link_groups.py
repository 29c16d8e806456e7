"""Whether devices that work together are directly linked, from the topology."""

from __future__ import annotations

from collections.abc import Iterable
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

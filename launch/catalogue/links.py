"""Bandwidth between the cards of one machine, from the topology that the vendor's tool prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.toml_file import Given, load_own_records

if TYPE_CHECKING:
    from envcheck.core.model import Topology

MAX_CARDS = 96  # the largest NVLink machine has 72
WORD = re.compile(r"([A-Z_]{2,12})(\d{0,2})")


@dataclass(frozen=True)
class LinkKind:
    """A row of links.toml: `gbs` of one link, or `pcie`, the share of the card's PCIe port; up to `ports` per card."""

    name: Given[str]
    source: str
    gbs: float = 0.0
    pcie: float = 0.0
    ports: int = 1

    def link_bandwidth_gbs(self, pcie_gbs: float) -> float:
        """Return the bandwidth of one link, GB/s; `pcie_gbs` is that of the card's PCIe port."""
        return self.gbs or self.pcie * pcie_gbs


@dataclass(frozen=True)
class LinkGroup:
    """A group of `ranks` cards, `apart` positions apart: `gbs` per card, limited by links of `kind`."""

    ranks: int
    apart: int
    gbs: float
    kind: str


@dataclass(frozen=True)
class MachineLinks:
    """All even divisions of a machine's `cards` into groups; per size and distance, the slowest group."""

    cards: int
    groups: tuple[LinkGroup, ...]

    @cached_property
    def _gbs_by_size(self) -> dict[tuple[int, int], float]:
        return {(group.ranks, group.apart): group.gbs for group in self.groups}

    def group_bandwidth_gbs(self, ranks: int, apart: int = 1) -> float | None:
        """Return GB/s per card of a group; None if it is larger than the machine.

        A size that does not divide the cards counts as the whole machine.
        """
        if ranks * apart > self.cards:
            return None
        return self._gbs_by_size.get((ranks, apart)) or self._gbs_by_size[self.cards, 1]


Pairs = list[list[tuple[int, int]]]  # (row in links.toml, number of links) from each card to each other


@cache
def load_link_kinds() -> tuple[LinkKind, ...]:
    """Return the rows of links.toml, fastest first."""
    return tuple(load_own_records(LinkKind, Path(__file__).with_name("links.toml")).values())


def measure_links(topology: Topology | None, chosen: Sequence[int], pcie_gbs: float) -> MachineLinks | None:
    """Return the links of the chosen cards, given as positions in the topology.

    None if the topology is incomplete or has words that are not in links.toml.
    """
    if topology is None or not 2 <= len(chosen) <= MAX_CARDS or max(chosen) >= len(topology.names):
        return None
    names = [topology.names[place] for place in chosen]
    pairs = [[_parse_link_word(topology.matrix.get(a, {}).get(b)) if a != b else (0, 0) for b in names] for a in names]
    if any(count < 0 for row in pairs for _, count in row):
        return None
    sizes = [
        (ranks, apart) for ranks in _list_divisors(len(names))[1:] for apart in _list_divisors(len(names) // ranks)
    ]
    return MachineLinks(len(names), tuple(_find_slowest_group(pairs, *size, pcie_gbs) for size in sizes))


def _parse_link_word(word: str | None) -> tuple[int, int]:
    """Return (kind, number of links) of a word: NV12 has twelve of NV; (0, -1) for an unknown word."""
    found = WORD.fullmatch(word or "")
    place = next((n for n, kind in enumerate(load_link_kinds()) if found and kind.name == found[1]), None)
    return (0, -1) if not found or place is None else (place, int(found[2] or 1))


def _list_divisors(count: int) -> list[int]:
    return [n for n in range(1, count + 1) if count % n == 0]


def _list_groups(cards: int, ranks: int, apart: int) -> Iterator[range]:
    """Yield all groups of this size and distance: interleaved in blocks of ranks x apart neighbours."""
    for start in range(0, cards, ranks * apart):
        yield from (range(first, start + ranks * apart, apart) for first in range(start, start + apart))


def _find_slowest_group(pairs: Pairs, ranks: int, apart: int, pcie_gbs: float) -> LinkGroup:
    groups = (_measure_group(pairs, members, apart, pcie_gbs) for members in _list_groups(len(pairs), ranks, apart))
    return min(groups, key=lambda group: group.gbs)


def _measure_group(pairs: Pairs, members: range, apart: int, pcie_gbs: float) -> LinkGroup:
    """Return the bandwidth of a group.

    The slowest kind of link needed to connect the group decides, with the card that has the fewest of them.
    """
    among = sorted({pairs[a][b][0] for a in members for b in members if a != b})
    needed = next((n for n in among if _connects_group(pairs, members, n)), among[-1])
    kind = load_link_kinds()[needed]
    counts = [_count_ports(pairs, a, members, needed) for a in members]
    return LinkGroup(
        len(members), apart, kind.link_bandwidth_gbs(pcie_gbs) * min(count for count in counts if count), kind.name
    )


def _connects_group(pairs: Pairs, members: range, slowest: int) -> bool:
    """Whether links of this kind or faster connect the whole group."""
    left, reached = set(members[1:]), [members[0]]
    while reached and left:
        card = reached.pop()
        near = {other for other in left if pairs[card][other][0] <= slowest}
        left -= near
        reached += near
    return not left


def _count_ports(pairs: Pairs, card: int, members: range, needed: int) -> int:
    """Return the number of such links from a card to its group.

    More links in its row than a card can have mean a switch: NV12 to each of seven peers are the same twelve.
    """
    row = [count for other, (kind, count) in enumerate(pairs[card]) if kind == needed and other != card]
    here = sum(pairs[card][other][1] for other in members if other != card and pairs[card][other][0] == needed)
    ports = load_link_kinds()[needed].ports
    switched = sum(row) > ports and max(row) > 1
    return min(here, max(row) if switched else ports)

"""What the cards of one machine can send each other, from the topology that the vendor's tool prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.toml_file import Given, own_records

if TYPE_CHECKING:
    from envcheck.core.model import Topology

LARGEST = 96  # cards; the widest NVLink machine has 72
WORD = re.compile(r"([A-Z_]{2,12})(\d{0,2})")


@dataclass(frozen=True)
class Kind:
    """A row of links.toml: `gbs` of one link, or `pcie`, a part of the card's port; `ports` a card may have of it."""

    name: Given[str]
    source: str
    gbs: float = 0.0
    pcie: float = 0.0
    ports: int = 1

    def of_one(self, pcie_gbs: float) -> float:
        return self.gbs or self.pcie * pcie_gbs


@dataclass(frozen=True)
class Group:
    """`ranks` cards, each `apart` from the next: what each sends to the others, by the links that they cannot avoid."""

    ranks: int
    apart: int
    gbs: float
    kind: str


@dataclass(frozen=True)
class Links:
    """All ways to part `cards` of one machine evenly; of the groups of one size the slowest counts."""

    cards: int
    groups: tuple[Group, ...]

    @cached_property
    def _by_size(self) -> dict[tuple[int, int], float]:
        return {(group.ranks, group.apart): group.gbs for group in self.groups}

    def gbs(self, ranks: int, apart: int = 1) -> float | None:
        """None where the group leaves the machine; a size that does not part the cards evenly counts as all of them."""
        if ranks * apart > self.cards:
            return None
        return self._by_size.get((ranks, apart)) or self._by_size[self.cards, 1]


Pairs = list[list[tuple[int, int]]]  # (kind, links) from each card to each other; the kind as its row in links.toml


@cache
def kinds() -> tuple[Kind, ...]:
    return tuple(own_records(Kind, Path(__file__).with_name("links.toml")).values())


def measured(topology: Topology | None, chosen: Sequence[int], pcie_gbs: float) -> Links | None:
    """The links of the chosen cards (places in the topology's list).  None where the tool does not tell all of them, or
    in words that the table lacks."""
    if topology is None or not 2 <= len(chosen) <= LARGEST or max(chosen) >= len(topology.names):
        return None
    names = [topology.names[place] for place in chosen]
    pairs = [[_read(topology.matrix.get(a, {}).get(b)) if a != b else (0, 0) for b in names] for a in names]
    if any(count < 0 for row in pairs for _, count in row):
        return None
    sizes = [(ranks, apart) for ranks in _divisors(len(names))[1:] for apart in _divisors(len(names) // ranks)]
    return Links(len(names), tuple(_slowest(pairs, *size, pcie_gbs) for size in sizes))


def _read(word: str | None) -> tuple[int, int]:
    """(kind, links) of a word: NV12 is twelve of NV; (0, -1) where it is not known."""
    found = WORD.fullmatch(word or "")
    place = next((n for n, kind in enumerate(kinds()) if found and kind.name == found[1]), None)
    return (0, -1) if not found or place is None else (place, int(found[2] or 1))


def _divisors(count: int) -> list[int]:
    return [n for n in range(1, count + 1) if count % n == 0]


def _tiles(cards: int, ranks: int, apart: int) -> Iterator[range]:
    """All groups of that shape: blocks of ranks x apart neighbours, interleaved."""
    for start in range(0, cards, ranks * apart):
        yield from (range(first, start + ranks * apart, apart) for first in range(start, start + apart))


def _slowest(pairs: Pairs, ranks: int, apart: int, pcie_gbs: float) -> Group:
    groups = (_group(pairs, members, apart, pcie_gbs) for members in _tiles(len(pairs), ranks, apart))
    return min(groups, key=lambda group: group.gbs)


def _group(pairs: Pairs, members: range, apart: int, pcie_gbs: float) -> Group:
    """The kind without which the group falls apart decides: on it every card waits for the one that has least of it."""
    among = sorted({pairs[a][b][0] for a in members for b in members if a != b})
    needed = next((n for n in among if _joined(pairs, members, n)), among[-1])
    kind = kinds()[needed]
    counts = [_ports(pairs, a, members, needed) for a in members]
    return Group(len(members), apart, kind.of_one(pcie_gbs) * min(count for count in counts if count), kind.name)


def _joined(pairs: Pairs, members: range, slowest: int) -> bool:
    """Whether links of that kind and faster ones connect the whole group."""
    left, reached = set(members[1:]), [members[0]]
    while reached and left:
        card = reached.pop()
        near = {other for other in left if pairs[card][other][0] <= slowest}
        left -= near
        reached += near
    return not left


def _ports(pairs: Pairs, card: int, members: range, needed: int) -> int:
    """Links of that kind which the card has to others of the group.  More in its whole row than a card can have means
    a switch: NV12 to each of seven peers are the same twelve."""
    row = [count for other, (kind, count) in enumerate(pairs[card]) if kind == needed and other != card]
    here = sum(pairs[card][other][1] for other in members if other != card and pairs[card][other][0] == needed)
    ports = kinds()[needed].ports
    switched = sum(row) > ports and max(row) > 1
    return min(here, max(row) if switched else ports)

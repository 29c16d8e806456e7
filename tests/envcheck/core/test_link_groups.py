"""Which cards are directly linked, on the published matrix of a P800 machine."""

from __future__ import annotations

import pytest

from envcheck.core.derived.link_groups import find_unlinked_pair, judge_group, list_linked_sets
from envcheck.core.model import Topology

NAMES = tuple(f"XPU{n}" for n in range(8))
# Two halves, fully linked by XL; a cube: card n also has a link to card n + 4, which one row prints as SYS.
MATRIX = {
    a: {
        b: "X" if i == j else "XL" if i // 4 == j // 4 or (j - i == 4 and i > 0) else "SYS" for j, b in enumerate(NAMES)
    }
    for i, a in enumerate(NAMES)
}
P800 = Topology(NAMES, (), MATRIX)


@pytest.mark.parametrize(
    ("cards", "pair"),
    [
        ((0, 1, 2, 3), None),
        ((4, 5, 6, 7), None),
        ((2, 3, 4, 5), (2, 4)),
        ((1, 5), None),
        ((0, 4), (0, 4)),
        ((3,), None),
    ],
)
def test_pairs(cards: tuple[int, ...], pair: tuple[int, int] | None) -> None:
    """A link that one row prints counts; the first pair without any is named."""
    assert find_unlinked_pair(P800, "XL", cards) == pair


def test_sets_of_linked_cards() -> None:
    """Four cards are 0-3 or 4-7; no five cards are linked to each other."""
    assert list_linked_sets(P800, "XL", 4) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert list_linked_sets(P800, "XL", 5) == ()


@pytest.mark.parametrize(
    ("cards", "fits"),
    [
        ((0,), True),
        ((0, 1, 2, 3), True),
        ((2, 3, 4, 5), False),
        (range(6), None),
        (range(8), True),
    ],
)
def test_groups(cards: tuple[int, ...], fits: bool | None) -> None:
    """Four cards need links between all of them, eight are two whole groups, and six are in no document."""
    assert judge_group(P800, "XL", 4, cards).fits is fits


def test_hosts_without_such_links() -> None:
    """Cards that have no links of this type at all are in no document; a host with a few of the cards is no group."""
    bare = Topology(NAMES, (), {a: {b: "X" if a == b else "SYS" for b in NAMES} for a in NAMES})
    four = tuple(enumerate(NAMES[:4]))
    pairs = {a: {b: "XL" if i // 2 == j // 2 else "SYS" for j, b in four} for i, a in four}

    assert judge_group(bare, "XL", 4, range(4)).fits is None
    assert judge_group(Topology(NAMES[:4], (), pairs), "XL", 4, range(4)).fits is False

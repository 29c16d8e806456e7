"""What cards of a kind should at least do: floors.toml, read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

FILE = Path(__file__).with_name("floors.toml")


@dataclass(frozen=True)
class Floor:
    """`rate` as published, and the share of it that counts as well; `link`: where all cards are tied by this alone."""

    rate: float
    share: float
    source: str
    link: str = ""

    @property
    def least(self) -> float:
        return self.rate * self.share

    @property
    def published(self) -> str:
        return f"at least {100 * self.share:.0f} % of {self.rate:g}: {self.source}"


class Link(Protocol):
    """A kind of link, as launch.catalogue.links has it: `gbs` of one link, or `pcie`, a part of the card's own port."""

    @property
    def name(self) -> str: ...

    @property
    def gbs(self) -> float: ...

    @property
    def source(self) -> str: ...


PEER_SHARE = 0.5  # ours: a link that carries half of what it is made for is broken, or another path was taken


@cache
def table() -> tuple[tuple[re.Pattern[str], Mapping[str, Floor]], ...]:
    from envcheck.core.toml_file import own_part, own_table

    return tuple(
        (
            re.compile(row["match"], re.I),
            {what: own_part(Floor, FILE, row[what], f"{card}.{what}") for what in row if what != "match"},
        )
        for card, row in own_table(FILE).items()
    )


def of_card(name: str | None) -> Mapping[str, Floor]:
    """By test; nothing for a card that the table lacks."""
    return next((floors for pattern, floors in table() if pattern.search(name or "")), {})


def of_link(word: str, links: tuple[Link, ...]) -> Floor | None:
    """Of one pair: NV12 is twelve links of NV.  None for a link whose own rate is not published (PCIe: it depends)."""
    found = re.fullmatch(r"([A-Z_]+?)(\d{0,2})", word)
    kind = next((link for link in links if found and link.name == found[1] and link.gbs), None)
    if not found or kind is None:
        return None
    return Floor(kind.gbs * int(found[2] or 1), PEER_SHARE, kind.source)

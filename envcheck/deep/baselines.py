"""The least performance to expect from a card type: floors.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from envcheck.core.messages import Message, _

FILE = Path(__file__).with_name("floors.toml")


@dataclass(frozen=True)
class Baseline:
    """`rate` as published, and the `share` of it that is sufficient; `link`: applies only if this link type connects
    all cards."""

    rate: float
    share: float
    source: str
    link: str = ""

    @property
    def least_rate(self) -> float:
        """The lowest rate that is not reported."""
        return self.rate * self.share

    @property
    def published(self) -> Message:
        """The limit with its source, as evidence."""
        return _(
            "at least {share:.0f} % of {rate:g}: {source}", share=100 * self.share, rate=self.rate, source=self.source
        )


class PublishedLink(Protocol):
    """A link type as in launch.catalogue.links: `gbs` is the rate of one link in GB/s, 0 for `pcie`, whose rate depends
    on the slot."""

    @property
    def name(self) -> str:
        """The name in the topology, such as NV."""

    @property
    def gbs(self) -> float:
        """GB/s of one link in one direction."""

    @property
    def source(self) -> str:
        """Where the rate is published."""


PEER_SHARE = 0.5  # our choice: a link at half of its rate is degraded, or the data took another path


@cache
def load_table() -> tuple[tuple[re.Pattern[str], Mapping[str, Baseline]], ...]:
    """Return (pattern of the card's name, baselines by test) of each row of floors.toml."""
    from envcheck.core.toml_file import load_own_part, load_own_table

    return tuple(
        (
            re.compile(row["match"], re.I),
            {what: load_own_part(Baseline, FILE, row[what], f"{card}.{what}") for what in row if what != "match"},
        )
        for card, row in load_own_table(FILE).items()
    )


def find_card_baselines(name: str | None) -> Mapping[str, Baseline]:
    """Return the baselines of a card by test; empty for a card that is not in the table."""
    return next((floors for pattern, floors in load_table() if pattern.search(name or "")), {})


def find_link_baseline(word: str, links: tuple[PublishedLink, ...]) -> Baseline | None:
    """Return the baseline of one pair: NV12 is twelve NV links.  None if the link's rate is not published (PCIe: it
    varies)."""
    found = re.fullmatch(r"([A-Z_]+?)(\d{0,2})", word)
    kind = next((link for link in links if found and link.name == found[1] and link.gbs), None)
    if not found or kind is None:
        return None
    return Baseline(kind.gbs * int(found[2] or 1), PEER_SHARE, kind.source)

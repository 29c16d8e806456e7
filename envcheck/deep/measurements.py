"""What was measured, with all that its judges need beside it: the cards' names and floors, the commands to paste."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core.findings import ranges
from envcheck.deep import baselines
from envcheck.deep.cards import Chosen
from envcheck.deep.interpreter import Said
from envcheck.vendors import VENDORS

SHOWN = 16  # lines of evidence


@dataclass(frozen=True)
class Bench:
    """All that a judge reads: `said` of every test, `outlier` by test the part by which a card may be slower than its
    peers, `command` what can be run by hand."""

    chosen: Chosen
    said: tuple[Said, ...] = ()
    outlier: Mapping[str, float] = field(default_factory=dict)
    links: tuple[baselines.Link, ...] = ()
    command: Callable[[str, Sequence[int]], str] = lambda test, cards: ""
    patience_s: float = 0.0

    def of(self, test: str) -> list[Said]:
        return [said for said in self.said if said.test == test]

    def named(self, cards: Sequence[int]) -> str:
        labels = {card.index: card.label for card in self.chosen.cards}
        words = [labels.get(n, str(n)) for n in cards]
        listed = ranges(list(map(int, words))) if words[2:] and all(map(str.isdecimal, words)) else ", ".join(words)
        return words[0] if words == ["cpu"] else f"device{'s' * bool(words[1:])} {listed}"

    def floor(self, test: str) -> baselines.Floor | None:
        names = {card.name for card in self.chosen.cards}
        return baselines.of_card(next(iter(names))).get(test) if len(names) == 1 else None

    @property
    def on_cards(self) -> bool:
        return self.chosen.vendor != "cpu"

    def shown(self, test: str, lines: Sequence[str], cards: Sequence[int] = ()) -> tuple[str, ...]:
        """Evidence: the command, for these cards or the first, and the figures."""
        command = self.command(test, cards)
        return (*((f"$ {command}",) if command else ()), *lines[:SHOWN])

    def health(self, said: Sequence[Said]) -> tuple[str, ...]:
        """What shows the health of the first card of these."""
        labels = {card.index: card.label.partition(" ")[0] for card in self.chosen.cards}
        number = labels.get(said[0].cards[0], "0") if said and said[0].cards else "0"
        return tuple(c.replace("{id}", number) for c in VENDORS[self.chosen.vendor].commands.get("health", ()))

    def topology(self) -> tuple[str, ...]:
        return VENDORS[self.chosen.vendor].commands.get("topology", ())

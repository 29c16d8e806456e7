"""The measurements with the data that judges need: names and published rates of the cards, and the commands to
repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core.findings import format_ranges
from envcheck.core.messages import Message, join, ngettext, verbatim
from envcheck.deep import baselines
from envcheck.deep.card_selection import CardSelection
from envcheck.deep.interpreter import DeepResult
from envcheck.vendors import VENDORS

SHOWN = 16  # lines of evidence


@dataclass(frozen=True)
class DeepMeasurements:
    """All that a judge reads.

    `results` of all tests; `outlier` by test the tolerated deviation from the median, as a fraction; `command` returns
    the shell command that repeats a test on some cards.
    """

    chosen: CardSelection
    results: tuple[DeepResult, ...] = ()
    outlier: Mapping[str, float] = field(default_factory=dict)
    links: tuple[baselines.PublishedLink, ...] = ()
    command: Callable[[str, Sequence[int]], str] = lambda test, cards: ""
    patience_s: float = 0.0

    def list_results(self, test: str) -> list[DeepResult]:
        """Return the results of one test."""
        return [result for result in self.results if result.test == test]

    def name_cards(self, cards: Sequence[int]) -> Message:
        """Return the cards by the vendor tool's names: "device 3", "devices 0-7"; "cpu" for the CPU."""
        labels = {card.index: card.label for card in self.chosen.cards}
        words = [labels.get(n, str(n)) for n in cards]
        listed = (
            format_ranges(list(map(int, words))) if words[2:] and all(map(str.isdecimal, words)) else join(", ", words)
        )
        if words == ["cpu"]:
            return verbatim("cpu")
        return ngettext("device {shown}", "devices {shown}", len(words), shown=listed)

    def find_baseline(self, test: str) -> baselines.Baseline | None:
        """Return the published rate for a test, None if the cards are of several types or the type is unknown."""
        names = {card.name for card in self.chosen.cards}
        return baselines.find_card_baselines(next(iter(names))).get(test) if len(names) == 1 else None

    @property
    def is_on_cards(self) -> bool:
        """Whether accelerators were tested, not the CPU."""
        return self.chosen.vendor != "cpu"

    def format_evidence(self, test: str, lines: Sequence[str], cards: Sequence[int] = ()) -> tuple[str, ...]:
        """Return evidence: the command for these cards or the first card, and the figures."""
        command = self.command(test, cards)
        return (*((f"$ {command}",) if command else ()), *lines[:SHOWN])

    def list_health_commands(self, results: Sequence[DeepResult]) -> tuple[str, ...]:
        """Return the commands that show the health of the first of these cards."""
        labels = {card.index: card.label.partition(" ")[0] for card in self.chosen.cards}
        number = labels.get(results[0].cards[0], "0") if results and results[0].cards else "0"
        return tuple(c.replace("{id}", number) for c in VENDORS[self.chosen.vendor].commands.get("health", ()))

    def list_topology_commands(self) -> tuple[str, ...]:
        """Return the vendor's commands that show the topology."""
        return VENDORS[self.chosen.vendor].commands.get("topology", ())

"""A sentence of the tables that has values: whether a text is that sentence, and what its values are."""

from __future__ import annotations

import re
from dataclasses import dataclass

HOLE = re.compile(r"\{(\d*)(!s)?\}")  # where a value goes; with !s one that stays as it is, as a name that is typed
LOOSE = 9  # letters of its own; a pattern with fewer could take a tool's words for ours


@dataclass(frozen=True)
class Pattern:
    """A sentence with values: `letters` counts its own, the more the better a match; the values `kept` stay."""

    parts: tuple[str, ...]
    into: str
    letters: int
    kept: frozenset[int]

    @classmethod
    def of(cls, source: str, into: str) -> Pattern:
        parts = tuple(source.split("{}"))
        letters = sum(c.isalpha() for part in parts for c in part)
        holes = enumerate(HOLE.findall(into))
        kept = {int(place or n) for n, (place, mark) in holes if mark}
        hyphened = {n for n, part in enumerate(parts) if part.endswith("-")}  # an option's name, in all languages
        return cls(parts, into, letters, frozenset(kept | hyphened))

    @property
    def vague(self) -> bool:
        """Whether a tool's words may look like it."""
        bounded = self.parts[0][:4].isalpha() and self.parts[-1]
        return self.letters < (LOOSE // 2 if bounded else LOOSE)

    def values(self, text: str) -> list[str] | None:
        """What stands for each {}, each as short as can be; None where the text is another sentence."""
        first, *between, last = self.parts
        at, end = len(first), len(text) - len(last)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return None
        found = []
        for part in between:
            there = text.find(part, at, end)
            if there < 0:
                return None
            found.append(text[at:there])
            at = there + len(part)
        return [*found, text[at:end]]

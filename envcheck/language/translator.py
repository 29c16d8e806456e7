"""Sentences by tables: exact ones, then those with values, then part by part."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from envcheck import toml_file

HOLE = re.compile(r"\{\}")
FILE_LIMIT = 1 << 20
DEPTH = 6  # values within values; a hostile text must not make it deep
TEXT_LIMIT = 1000
PARTS = re.compile(r"((?:; |\. (?=[A-Z`])|, (?=[a-z])|: ))")


@dataclass(frozen=True)
class Pattern:
    """A sentence with values: `literal` counts the characters that are not values, the more the better a match."""

    match: re.Pattern[str]
    into: str
    literal: int

    @classmethod
    def of(cls, source: str, into: str) -> Pattern:
        parts = HOLE.split(source)
        return cls(re.compile("(.+?)".join(map(re.escape, parts)), re.DOTALL), into, sum(map(len, parts)))


@dataclass(frozen=True)
class Translator:
    """Called with a sentence; `sentences` maps English to the other language."""

    sentences: Mapping[str, str]
    known: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        if text not in self.known:
            self.known[text] = self._said(text, 0)
        return self.known[text]

    def knows(self, text: str) -> bool:
        """Whether the whole sentence stands in a table."""
        return text in self.sentences or self._whole(text, 0) is not None

    def _said(self, text: str, depth: int) -> str:
        if len(text) > TEXT_LIMIT or depth > DEPTH or not text.strip():
            return text
        bare = text.strip()
        whole = self.sentences.get(bare) or self._whole(bare, depth)
        whole = whole or self._parts(bare, depth)
        return text if whole is None else text.replace(bare, whole, 1)

    def _parts(self, text: str, depth: int) -> str | None:
        """Part by part; None where no part is known: a tool's own words keep their marks, too."""
        parts = PARTS.split(text)
        said = [_MARKS.get(part) or self._said(part, depth + 1) for part in parts]
        return "".join(said) if any(a != b for a, b in zip(parts[::2], said[::2], strict=True)) else None

    def _whole(self, text: str, depth: int) -> str | None:
        candidates = (*self._patterns[text[:2]], *self._patterns[""])
        for pattern in sorted(candidates, key=lambda p: -p.literal):
            if found := pattern.match.fullmatch(text):
                return pattern.into.format(*(self._said(value, depth + 1) for value in found.groups()))
        return None

    @cached_property
    def _patterns(self) -> Mapping[str, list[Pattern]]:
        """By how they begin: two letters, or a value."""
        index: defaultdict[str, list[Pattern]] = defaultdict(list)
        for source, into in self.sentences.items():
            if HOLE.search(source):
                index["" if "{" in source[:2] else source[:2]].append(Pattern.of(source, into))
        return index


_MARKS = {"; ": "；", ". ": "。", ", ": "，", ": ": "："}


def load(language: str) -> Translator:
    """All tables of the language's folder."""
    return Translator(dict(_sentences(sorted((Path(__file__).parent / language).glob("*.toml")))))


def _sentences(files: Iterable[Path]) -> Iterable[tuple[str, str]]:
    for file in files:
        table = toml_file.table(toml_file.text(file, FILE_LIMIT, "table of sentences"), str(file), "reinstall envcheck")
        for section in table.values():
            yield from section.items()

"""Sentences by tables: exact ones, then those with values, then part by part.

A value may be anything that a tool printed, so matching is by plain search from left to right, whose time grows with
the text and no faster, and every bound is a number below.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from envcheck.core.language.pattern import HOLE, Pattern
from envcheck.core.language.width import tidy

LINE = re.compile(r'^(".*?(?<!\\)") = (".*")$', re.MULTILINE)
DEPTH = 5  # values within values
TEXT_LIMIT = 1000
HOLES_LIMIT = 12
KNOWN_LIMIT = 20_000  # texts whose translation is kept: --watch says new figures for days
SPLITS_LIMIT = 40
TAILS = (", ", "; ", ": ", "(")  # how a fragment begins that another text stands before
MARKS = {". ": "", "; ": "；", ": ": "：", ", ": "，"}  # the most that parts first
UNSAID = {": {}": "：{}", " ({})": "（{}）", " ({}).": "（{}）。"}  # ends of sentences that may lack their value
AREAS = "driver devices links toolkit network host engine python job deep own fleet gate"
QUOTED = re.compile(rf"((?:{'|'.join(AREAS.split())})\.\w+): (?=\S)")  # a finding, told by its name
LETTERS = re.compile("[A-Za-z]{2}")
ENGLISH = re.compile(r"[A-Za-z]{2,} (?:[a-z]|\d+\b(?!\.))")


@dataclass(frozen=True)
class Translator:
    """Called with a sentence; `sentences` maps English to the other language."""

    sentences: Mapping[str, str]
    known: dict[str, str] = field(default_factory=dict)
    tried: dict[tuple[str, int], str] = field(default_factory=dict)  # parts of one text, at each depth

    def __call__(self, text: str) -> str:
        if text not in self.known:
            if len(self.known) >= KNOWN_LIMIT:
                self.known.clear()
            said = self.sentences.get(text) or self._said(text, 0)
            self.known[text] = said if said == text else tidy(said)
            self.tried.clear()
        return self.known[text]

    def _said(self, text: str, depth: int) -> str:
        """Once for each part: a text may be cut at many marks, and its parts are parts of others."""
        if (text, depth) not in self.tried:
            self.tried[text, depth] = self._made(text, depth)
        return self.tried[text, depth]

    def _made(self, text: str, depth: int) -> str:
        bare = text.strip()
        if exact := self.sentences.get(bare) or self._without_value(bare):
            return text.replace(bare, exact, 1)
        if depth > DEPTH or len(text) > TEXT_LIMIT or " " not in bare or not LETTERS.search(bare):
            return text
        whole = (
            self._quoted(bare, depth)
            or self._listed(bare, depth)
            or self._sentences(bare, depth)
            or self._whole(bare, depth)
            or self._parts(bare, depth)
        )
        return text if whole is None else text.replace(bare, whole, 1)

    def _without_value(self, text: str) -> str:
        """A sentence whose last value was not told: "A library is not found" of "A library is not found: {}"."""
        if said := self.sentences.get(f"{text} {{}}"):
            return HOLE.sub("", said).strip()
        tails = UNSAID if " " in text and len(text) <= TEXT_LIMIT else {}
        known = ((self.sentences.get(text + tail, ""), into) for tail, into in tails.items())
        return next((said.removesuffix(into) for said, into in known if said.endswith(into)), "")

    def _quoted(self, text: str, depth: int) -> str | None:
        """A finding by its name: no sentence about a value takes the name for the value's beginning."""
        name = QUOTED.match(text)
        return f"{name[1]}{MARKS[': ']}{self._said(text[name.end() :], depth + 1)}" if name else None

    def _listed(self, text: str, depth: int) -> str | None:
        """Clauses that each stand in a table: no value of the first takes the others in."""
        clauses = text.split("; ", SPLITS_LIMIT)
        if len(clauses) == 1 or not all(map(_closed, clauses)):
            return None
        said = [self._said(clause, depth + 1) for clause in clauses]
        return None if any(a == b for a, b in zip(clauses, said, strict=True)) else MARKS["; "].join(said)

    def _sentences(self, text: str, depth: int) -> str | None:
        """Two that each stand in a table: no value at the end of the first takes the second in."""
        before, mark, behind = text.partition(". ")
        if not (mark and behind[:1].isupper()) or text.count(mark) > SPLITS_LIMIT:
            return None
        first, then = self._stopped(before, depth + 1), self._said(behind, depth + 1)
        return f"{first}{then}" if first.endswith("。") and then != behind else None

    def _parts(self, text: str, depth: int) -> str | None:
        """What stands before a mark and behind it, by themselves; None where none is known: a tool's words keep theirs.

        Sentences are parted before clauses, and clauses before lists.
        """
        for mark, said in MARKS.items():
            before, found, behind = text.partition(mark)
            if not found or not before or text.count(mark) > SPLITS_LIMIT:
                continue
            first = self._stopped(before, depth + 1) if mark == ". " else self._said(before, depth + 1)
            then = self._said(behind, depth + (mark == ": "))
            if (first.removesuffix("."), then) != (before, behind):
                return f"{first}{' ' if first.endswith('.') else said}{then}"
        return None

    def _stopped(self, text: str, depth: int) -> str:
        """The sentence with its full stop, which many a table's lacks; a tool's words keep theirs."""
        said, bare = self._said(f"{text}.", depth), self._said(text, depth)
        return said if bare == text or said.endswith("。") else f"{bare}。"

    def _whole(self, text: str, depth: int) -> str | None:
        starts, ends, rest = self._patterns
        candidates = (*starts.get(text[:2], ()), *ends.get(text[-2:], ()), *rest)
        found = [
            (p, values) for p in candidates if (values := p.values(text)) is not None and all(map(_closed, values))
        ]
        for pattern, values in sorted(found, key=lambda pair: (-pair[0].letters, -sum(map(len, pair[0].parts)))):
            said = [v if n in pattern.kept else self._said(v, depth + 1) for n, v in enumerate(values)]
            if not (pattern.vague and any(map(ENGLISH.search, said))):
                return str(pattern.into.format(*said))
        return None

    @cached_property
    def _patterns(self) -> tuple[Mapping[str, list[Pattern]], Mapping[str, list[Pattern]], Sequence[Pattern]]:
        """By how they begin, else by how they end, else the rest."""
        starts: defaultdict[str, list[Pattern]] = defaultdict(list)
        ends: defaultdict[str, list[Pattern]] = defaultdict(list)
        rest: list[Pattern] = []
        for source, into in self._with_values():
            if source.count("{}") > HOLES_LIMIT:
                continue
            pattern = Pattern.of(source, into)
            if len(pattern.parts[0]) > 1:
                starts[source[:2]].append(pattern)
            elif len(pattern.parts[-1]) > 1:
                ends[source[-2:]].append(pattern)
            else:
                rest.append(pattern)
        return starts, ends, rest

    def _with_values(self) -> Iterator[tuple[str, str]]:
        """The sentences with {}; and of a fragment that follows something, the two together."""
        for source, into in self.sentences.items():
            if "{}" in source:
                yield source, into
            if source.startswith(TAILS) and not re.search(r"\{\d\}", into):
                yield "{}" + source, "{}" + into


def _closed(value: str) -> bool:
    """Its brackets belong to it: a value does not end within another's."""
    return value.count("(") == value.count(")")


def load(language: str) -> Translator:
    """All tables of the language's folder."""
    return Translator(dict(pairs(sorted((Path(__file__).parent / language).glob("*.toml")))))


def pairs(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """(English, the other) of each table, in the files' order.

    The tables are TOML, and each sentence is a line whose two strings are JSON's, too: so read, a thousand take no time
    that a person could notice; tests/envcheck/core/language/test_language.py holds them to it.
    """
    for file in files:
        for source, into in LINE.findall(file.read_text(encoding="utf-8")):
            yield json.loads(source), json.loads(into)

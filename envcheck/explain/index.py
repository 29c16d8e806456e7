"""Find the entries that a line matches: first by words, then by patterns."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from envcheck.explain import catalogue, codes
from envcheck.explain.diagnosis import CatalogueEntry
from envcheck.explain.log_text import PRINTABLE
from envcheck.explain.prefilter import find_needles, mask_digits, may_match, rate_rarity
from envcheck.explain.processes.line_prefix import find_own_text
from envcheck.explain.word_search import WordSearch

# Lines that mention an error without reporting one: source code in a traceback, printed settings, messages at INFO
# level, counts of zero.  Not what a step of BuildKit prints (`#8 3.1 `).
_QUOTES = re.compile(
    r"^\s{2,60}(?:raise|except|assert|return|elif|if|else|with|def|class|import|from|for|while|try)\b(?! of )"
    r"|^\s{2,60}(?:logger|logging|warnings|warn|self|print)[.(]|^\s{0,60}(?:#(?!\d{1,4} (?:\d|[A-Z]{5}))|//|\^{3}|~{3})"
    r"|^\s{0,8}(?:--[\w-]{2,40}[ =]|export |(?!E[A-Z]{2,14}\b)[A-Z][A-Z_]{3,40}=)"
)
_TOLD = re.compile(
    r"^(?!.{0,40}(?:LAUNCH INFO|launch\.py)).{0,100}?"
    r"(?:(?<![A-Z]=)\b(?:INFO|DEBUG|VERBOSE|TRACE)\b(?! WARN)|^\[?[ID]\d{4} \d\d:)"  # LEVEL=DEBUG is a variable
)
_NONE = re.compile(
    r"\b(?:errors|failed|failures|fail|timeouts|refused|mismatch(?:es)?|exceptions|killed|unreachable)\b ?[:=]? ?"
    r"(?:0|none)(?![.\w])|(?<![\w.])(?:no|zero|0) (?:errors|failures|timeouts|exceptions|mismatch(?:es)?|failed)\b"
    r"|\berror[ _]count ?[:=] ?0(?![.\w])|\b(?:retrying|will retry|will try again)\b(?! failed)",
    re.IGNORECASE,
)


TRACEBACK = "traceback (most recent call last)"
LONG = 2048  # bytes
FIRST = 200  # characters by which a line is found among its surroundings
_WORD = re.compile(r"[a-z_]{3,40}|\b[a-z]{2}(?=\d{4})")  # EI0006: its letters, without the digits


class EntryIndex:
    """The catalogue, arranged for searching; `words` are all its words."""

    def __init__(self, entries: Iterable[CatalogueEntry]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.owners = catalogue.index_by_code(self.entries.values())
        near: dict[str, list[CatalogueEntry]] = {}
        for entry in self.entries.values():
            for word in entry.near:
                near.setdefault(word, []).append(entry)
        self._near = tuple(near.values())
        self._words = WordSearch([word.encode() for word in near])
        said = " ".join(p for e in self.entries.values() for p in (*e.near, *e.codes, *(m.pattern for m in e.match)))
        self.words = frozenset(_WORD.findall(re.sub(r"\\[a-zA-Z]", " ", said).lower()))

    @functools.cached_property
    def _rare_words(self) -> tuple[WordSearch, tuple[tuple[re.Pattern[str], ...], ...]]:
        """For each pattern its rarest words, one of which every matching line contains; and the entries of words."""
        whose: dict[str, list[re.Pattern[str]]] = {TRACEBACK: [re.compile(re.escape(TRACEBACK), re.IGNORECASE)]}
        for entry in self.entries.values():
            near = frozenset(map(mask_digits, entry.near))
            for pattern in entry.match:
                for word in max((*find_needles(pattern), near), key=rate_rarity):
                    whose.setdefault(word, []).append(pattern)
        return WordSearch([word.encode() for word in whose], swift=True), tuple(map(tuple, whose.values()))

    def find_possible_lines(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Return the lines (0 for each digit) that may match an entry or start a traceback; `match_line` decides."""
        odd: list[bytes] = []
        if b"".join(lines).translate(None, PRINTABLE):  # the shown text of such a line may differ
            odd = [line for line in lines if line.translate(None, PRINTABLE)]
            lines = list(set(lines).difference(odd))
        signs, whose = self._rare_words
        short = [line for line in lines if len(line) <= LONG]
        yield from (
            line
            for line, found in signs.find_words_by_line(short)
            if _may_match_any(line, [p for at in found for p in whose[at]])
        )
        if len(short) < len(lines):
            yield from signs.find_lines([line for line in lines if len(line) > LONG])  # patterns with at least one word
        yield from odd

    def match_line(self, text: str, around: Callable[[], str] = str) -> Iterator[tuple[CatalogueEntry, dict[str, str]]]:
        """Return the entries that the line matches, with the values of their patterns.

        The lines around are searched for `needs` and `lacks` only; `read_surroundings` takes values from them.
        """
        low = text.lower()
        near = {entry.name: entry for entry in self._find_nearby_entries(low)}
        if not near or _QUOTES.match(text):
            return
        low = mask_digits(low)
        if may_match(_TOLD, low) and _TOLD.match(text):
            near = {name: entry for name, entry in near.items() if entry.in_info}
        found = [(entry, _match_entry(entry, text, low, around)) for entry in near.values()]
        if any(groups is not None for _, groups in found):
            is_none = may_match(_NONE, low) and _NONE.search(text)
            matched = [
                (entry, groups) for entry, groups in found if groups is not None and (entry.in_info or not is_none)
            ]
            yield from self._assign_to_owners(matched, text, low)

    def _assign_to_owners(
        self, matched: Iterable[tuple[CatalogueEntry, dict[str, str]]], text: str, low: str
    ) -> Iterable[tuple[CatalogueEntry, dict[str, str]]]:
        """Replace an entry by the one that lists the code of the line, unless that one excludes the line."""
        found: dict[str, tuple[CatalogueEntry, dict[str, str]]] = {}
        for entry, groups in matched:
            code = self._read_code(entry, groups)
            owner = self.owners.get(code.upper(), entry)
            if owner is entry or _is_excepted(owner, text, low):
                found[entry.name] = (entry, found.get(entry.name, (entry, {}))[1] | groups)
            else:
                known = found[owner.name][1] if owner.name in found else {}
                found[owner.name] = (owner, {**groups, "code": code} | known)
        return found.values()

    def _read_code(self, entry: CatalogueEntry, groups: Mapping[str, str]) -> str:
        """Return the code that an entry read in a line, as the tables of codes write it; "" without one."""
        code = groups.get("code", "")
        explained = codes.explain_code(codes.label_code(entry.name, code), entry.area) if code else None
        return explained.code if explained else code

    def compute_traits(self, line: bytes) -> tuple[object, ...]:
        """For an ASCII line without figures: which words of `near` it contains, and whose `unless` matches."""
        text = line.decode("ascii")
        low = text.lower()
        near = self._words.find_words(low.encode())
        return tuple((at, *(_is_excepted(entry, text, low) for entry in self._near[at])) for at in near)

    def _find_nearby_entries(self, low: str) -> Iterator[CatalogueEntry]:
        """Entries with a word of `near` in the text, always in the same order."""
        for at in self._words.find_words(low.encode("utf-8", "replace")):
            yield from self._near[at]


def _may_match_any(line: bytes, patterns: Iterable[re.Pattern[str]]) -> bool:
    """Whether the line contains all that one of the patterns requires; the line is ASCII."""
    low = line.lower().decode("ascii")
    return any(may_match(pattern, low) for pattern in patterns)


def _is_excepted(entry: CatalogueEntry, text: str, low: str) -> bool:
    return bool(entry.unless and may_match(entry.unless, low) and entry.unless.search(text))


def _search_line(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Search a pattern; one for the beginning of a line is also tried behind prefixes such as ranks and times."""
    found = pattern.search(text)
    if found is None and pattern.pattern[:1] == "^" and (own := find_own_text(text)) is not None:
        found = pattern.search(own)
    return found


def _match_entry(entry: CatalogueEntry, text: str, low: str, around: Callable[[], str]) -> dict[str, str] | None:
    found = next((m for pattern in entry.match if may_match(pattern, low) and (m := _search_line(pattern, text))), None)
    if found is None or _is_excepted(entry, text, low):
        return None
    if entry.needs and not entry.needs.search(around()):
        return None
    if entry.lacks and entry.lacks.search(around()):
        return None
    return {name: said for name, said in found.groupdict().items() if said}


def read_surroundings(entry: CatalogueEntry, text: str, around: Callable[[], str]) -> dict[str, str]:
    """Return the values that the entry takes from the lines around this one, of each pattern's places the nearest."""
    if not entry.around:
        return {}
    lines = around()
    here = lines.find(text[:FIRST])
    values: dict[str, str] = {}
    for pattern in entry.around:
        near = min(pattern.finditer(lines), key=lambda found: abs(found.start() - here), default=None)
        values |= {name: said for name, said in (near.groupdict() if near else {}).items() if said}
    return values

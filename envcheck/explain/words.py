"""Many words sought at once: one pass over the text, however many they are (Aho and Corasick's automaton, compiled).

Where its library is not, as in what envcheck carries to a node, each word is sought by itself: the same answers, later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick


class Words:
    """In lower case, none with an end of line.  `swift`: three times as fast to search, ten times as slow to build."""

    def __init__(self, words: Sequence[bytes], swift: bool = False) -> None:
        self._words = words
        self._automaton = automaton(words, swift)

    def lines(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Those in which one of the words stands, in whatever case, in their order."""
        ends = list(accumulate([len(line) + 1 for line in lines]))
        number = end = 0
        for at in self._starts(b"\n".join(lines).lower()):
            if at >= end:
                number = bisect_right(ends, at, number)
                end = ends[number]
                yield lines[number]

    def each(self, lines: Sequence[bytes]) -> Iterator[tuple[bytes, Iterable[int]]]:
        """The same lines, with which of the words stand in each: one search for all of them."""
        if self._automaton is None:
            yield from ((line, self.within(line.lower())) for line in self.lines(lines))
            return
        ends = list(accumulate([len(line) + 1 for line in lines]))
        number = end = 0
        here: set[int] = set()
        for word, at, _ in self._automaton.find_matches_as_indexes(b"\n".join(lines).lower(), overlapping=True):
            if at >= end:
                if here:
                    yield lines[number], here
                number = bisect_right(ends, at, number)
                end, here = ends[number], set()
            here.add(word)
        if here:
            yield lines[number], here

    def within(self, text: bytes) -> list[int]:
        """Which of the words stand in the text, by their places among the words."""
        if self._automaton is None:
            return [at for at, word in enumerate(self._words) if word in text]
        return sorted({at for at, _, _ in self._automaton.find_matches_as_indexes(text, overlapping=True)})

    def _starts(self, text: bytes) -> Sequence[int]:
        """Where words begin, in order: one at least in each line that has any."""
        if self._automaton is None:
            return sorted({at for word in self._words for at in _one(word, text)})
        return [at for _, at, _ in self._automaton.find_matches_as_indexes(text)]


def automaton(words: Sequence[bytes], swift: bool) -> BytesAhoCorasick | None:
    """None where the library is not installed."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation
    except ImportError:
        return None
    return BytesAhoCorasick(words, implementation=Implementation.DFA if swift else Implementation.ContiguousNFA)


def _one(word: bytes, text: bytes) -> Iterator[int]:
    """Where the word begins first in each line."""
    at = text.find(word)
    while at >= 0:
        yield at
        end = text.find(b"\n", at)
        at = text.find(word, end) if end >= 0 else -1

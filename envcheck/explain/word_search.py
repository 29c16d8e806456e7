"""Search for many words in one pass, however many there are (Aho-Corasick, compiled).

Without its library, as in the file that envcheck carries to a node, each word is searched separately: the same result,
slower.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick


class WordSearch:
    """Lower-case words without line ends.  `swift`: three times as fast to search, ten times as slow to build."""

    def __init__(self, words: Sequence[bytes], swift: bool = False) -> None:
        self._words = words
        self._automaton = build_automaton(words, swift)

    def find_lines(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Return the lines that contain one of the words, in any case, in their order."""
        ends = list(accumulate([len(line) + 1 for line in lines]))
        number = end = 0
        for at in self._find_starts(b"\n".join(lines).lower()):
            if at >= end:
                number = bisect_right(ends, at, number)
                end = ends[number]
                yield lines[number]

    def find_words_by_line(self, lines: Sequence[bytes]) -> Iterator[tuple[bytes, Iterable[int]]]:
        """Return the same lines with their words: one search for all."""
        if self._automaton is None:
            yield from ((line, self.find_words(line.lower())) for line in self.find_lines(lines))
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

    def find_words(self, text: bytes) -> list[int]:
        """Return the words in the text, as indices into the list of words."""
        if self._automaton is None:
            return [at for at, word in enumerate(self._words) if word in text]
        return sorted({at for at, _, _ in self._automaton.find_matches_as_indexes(text, overlapping=True)})

    def _find_starts(self, text: bytes) -> Sequence[int]:
        """Start positions of words, in order: at least one in each line that contains any."""
        if self._automaton is None:
            return sorted({at for word in self._words for at in _find_in_lines(word, text)})
        return [at for _, at, _ in self._automaton.find_matches_as_indexes(text)]


def build_automaton(words: Sequence[bytes], swift: bool) -> BytesAhoCorasick | None:
    """Return the automaton; None if the library is not installed."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation
    except ImportError:
        return None
    return BytesAhoCorasick(words, implementation=Implementation.DFA if swift else Implementation.ContiguousNFA)


def _find_in_lines(word: bytes, text: bytes) -> Iterator[int]:
    """The first position of the word in each line."""
    at = text.find(word)
    while at >= 0:
        yield at
        end = text.find(b"\n", at)
        at = text.find(word, end) if end >= 0 else -1

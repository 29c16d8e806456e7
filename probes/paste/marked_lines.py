"""Finds the lines of a long text that have one of some words: a search for each word is faster than any look at each
line, and lines that differ by their digits alone, as those of a log or of repeated tables do, are searched once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SHORTEST = 3  # characters of the words with which a line may begin
# Behind a host, a level, a number, a time, a stream, a service.
_PREFIX_ENDS = (b": ", b">:", b":root:", b"] ", b"0\t", b"0  ", b"0Z ", b" - ", b" F ", b"| ")
_PREFIX_LIMIT = 80
_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_SIGNS = '|"#>+'  # before the first word of a line
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_BEFORE = (_BLANKS + _SIGNS).encode()  # also the single bytes of characters that are not ASCII, which no word has


@dataclass(frozen=True)
class LineMarks:
    """The marks of lines, with zeros for all digits: words anywhere, of which some count only beside another one, words
    at the begin behind blanks and signs, and the last two characters."""

    words: tuple[bytes, ...]
    pairs: tuple[tuple[bytes, bytes], ...]
    begins: tuple[bytes, ...]
    ends: frozenset[bytes]


def make_marks(
    words: Iterable[str], begins: Iterable[str], ends: Iterable[str] = (), pairs: Iterable[tuple[str, str]] = ()
) -> LineMarks:
    """Return the marks; a word that contains another one marks no further lines."""
    folded = {fold_digits(word) for word in words}
    both = {(fold_digits(word), fold_digits(other)) for word, other in pairs}
    needed = [word for word in folded if not any(other in word for other in folded - {word})]
    heads = {fold_digits(begin) for begin in begins}
    if any(len(head) < _SHORTEST for head in heads):
        raise ValueError(f"a begin has fewer than {_SHORTEST} characters")
    return LineMarks(
        tuple(sorted(needed)), tuple(sorted(both)), tuple(sorted(heads)), frozenset(map(fold_digits, ends))
    )


def fold_digits(text: str) -> bytes:
    """Return the text with zeros for its digits."""
    return text.encode("utf-8", "surrogatepass").translate(_DIGITS)


class MarkIndex:
    """Finds which of several groups of marks a line has: each group is words anywhere, and words at the begin."""

    def __init__(self, groups: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        self._words: dict[bytes, list[int]] = {}
        self._begins: dict[bytes, list[tuple[bytes, int]]] = {}
        self._unmarked = [at for at, (words, begins) in enumerate(groups) if not (words or begins)]
        for at, (words, begins) in enumerate(groups):
            for word in words:
                self._words.setdefault(fold_digits(word), []).append(at)
            for begin in map(fold_digits, begins):
                self._begins.setdefault(begin[:_SHORTEST], []).append((begin, at))

    def find_marked(self, folded: bytes) -> list[int]:
        """Return the positions of the groups of which a line with zeros for its digits has a mark, or which have none,
        in order."""
        text = folded.lstrip(_BEFORE)
        found = [*self._unmarked]
        found += [at for begin, at in self._begins.get(text[:_SHORTEST], ()) if text.startswith(begin)]
        for word, positions in self._words.items():
            if word in folded:
                found += positions
        return sorted({*found}) if len(found) > 1 else found


def find_marked_lines(lines: Sequence[str], marks: LineMarks) -> list[int]:
    """Return the indices of the lines that have a mark, in order; digits in a mark stand for any digits."""
    folded = fold_digits("\n".join(lines)).split(b"\n")
    distinct = list(dict.fromkeys(folded))
    marked = set(_find_begins(distinct, marks))
    text = b"\n" + b"\n".join(distinct) + b"\n"
    marked.update(_find_prefixed(text, marks))
    for word in marks.words:
        marked.update(_find_word(text, word))
    for word, other in marks.pairs:
        marked.update(line for line in _find_word(text, word) if other in line)
    return [at for at, line in enumerate(folded) if line in marked] if marked else []


def _find_begins(lines: Iterable[bytes], marks: LineMarks) -> Iterable[bytes]:
    """Return the lines that begin or end with a mark."""
    short, ends = {begin[:_SHORTEST] for begin in marks.begins}, marks.ends
    likely = [line for line in lines if line.lstrip(_BEFORE)[:_SHORTEST] in short or line[-2:] in ends]
    return [line for line in likely if line[-2:] in ends or line.lstrip(_BEFORE).startswith(marks.begins)]


def _find_prefixed(text: bytes, marks: LineMarks) -> Iterable[bytes]:
    """Yield the lines in which a mark of the begin is behind a host, a level or a number."""
    short = {begin[:_SHORTEST] for begin in marks.begins}
    for end in _PREFIX_ENDS:
        at = text.find(end)
        while at >= 0:
            rest = text[at + len(end) : at + _PREFIX_LIMIT].lstrip(_BEFORE)
            if rest[:_SHORTEST] in short and rest.startswith(marks.begins):
                begin = text.rfind(b"\n", max(0, at - _PREFIX_LIMIT), at) + 1
                if begin:
                    end_of_line = text.find(b"\n", at)
                    yield text[begin:end_of_line]
                    at = end_of_line
            at = text.find(end, at + 1)


def _find_word(text: bytes, word: bytes) -> Iterable[bytes]:
    """Yield each line with the word; the text begins and ends with a line break."""
    at = text.find(word)
    while at >= 0:
        end = text.find(b"\n", at)
        yield text[text.rfind(b"\n", 0, at) + 1 : end]
        at = text.find(word, end)

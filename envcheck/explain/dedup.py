"""Recognise floods of unknown lines by the words that matter; searched by a C library, without a step per line.

A log may contain millions of unknown errors, each worded differently.  Of each line, only the words that occur in the
catalogue are kept, in their order: its gist.  Lines with equal gists are treated alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from envcheck.explain.prefilter import CHINESE

MAX_LOOKS = 200  # lines with the same known words that are examined before the rest are assumed to be equal
MAX_GISTS = 20_000  # number of such gists that are remembered
_NEVER: tuple[tuple[str, ...], int] = ((), 0)
_KEPT = {*b"abcdefghijklmnopqrstuvwxyz_", *range(128, 256)}
_END = b"\x01"  # end of a line: a separate word, unlike the blanks around it
_FOLD = bytes(low if (low := c + 32 if 65 <= c <= 90 else c) in _KEPT else 32 for c in range(256))
_FOLD = _FOLD[:10] + _END + _FOLD[11:]
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})


class LineGists:
    """`known` are the catalogue's words: only letters, and few enough for the processor's cache."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {_END, *(word.encode() for word in known)}

    def extract_gists(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the gist of each key (a line without its digits), in order."""
        text = (b"\n %b \n" % b" \n ".join(keys)).translate(_FOLD)
        words = text.split()
        parts = filter(self._known.__contains__, words) if text.isascii() else self._find_known_words(words)
        return b" ".join(parts).split(_END)[1:-1] if keys else []

    def _find_known_words(self, words: Iterable[bytes]) -> Iterator[bytes]:
        """The known words in the text; Chinese has no blanks between words."""
        for word in words:
            if word in self._known:
                yield word
            elif not word.isascii():
                yield from (part for part in _WIDE if part in word)


class KnownOutcomes:
    """Entries that similar lines matched: after many equal results, the next line is assumed to match the same.

    `alike` is equal for similar lines; None for a line that is unique, such as one with figures, which may be codes.
    """

    def __init__(self) -> None:
        self._of: dict[int, tuple[tuple[str, ...], int]] = {}

    def find_entries(self, alike: int | None) -> tuple[str, ...]:
        """Return the entries; empty if they are not certain."""
        names, times = self._of.get(alike, _NEVER) if alike is not None else _NEVER
        return names if times > MAX_LOOKS else ()

    def record_outcome(self, alike: int | None, names: tuple[str, ...]) -> None:
        """Record which entries a line matched."""
        if alike is None:
            return
        if len(self._of) > MAX_GISTS:
            self._of.clear()
        before, times = self._of.get(alike, (names, 0))
        self._of[alike] = (names, times + 1 if before == names else -(1 << 40))

"""What of a line's words matters, for floods of lines that are all new: found by the C library, no step for each line.

A log may hold millions of errors that no entry knows, each in other words.  Of a line there remain those words that the
catalogue has, in their order: its gist.  Lines of one gist fare alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from envcheck.explain.prefilter import CHINESE

PATIENCE = 200  # lines of the same known words that are looked at before the rest are taken to be like them
ALIKE = 20_000  # gists of such lines that are remembered
_NEVER: tuple[tuple[str, ...], int] = ((), 0)
_KEPT = {*b"abcdefghijklmnopqrstuvwxyz_", *range(128, 256)}
_END = b"\x01"  # of a line: a word of its own, unlike the blanks around it
_FOLD = bytes(low if (low := c + 32 if 65 <= c <= 90 else c) in _KEPT else 32 for c in range(256))
_FOLD = _FOLD[:10] + _END + _FOLD[11:]
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})


class Gists:
    """`known` are the catalogue's words: letters alone, as few as memory close to the processor holds."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {_END, *(word.encode() for word in known)}

    def of(self, keys: Sequence[bytes]) -> list[bytes]:
        """Of each key (a line without its digits), in their order."""
        text = (b"\n %b \n" % b" \n ".join(keys)).translate(_FOLD)
        words = text.split()
        parts = filter(self._known.__contains__, words) if text.isascii() else self._parts(words)
        return b" ".join(parts).split(_END)[1:-1] if keys else []

    def _parts(self, words: Iterable[bytes]) -> Iterator[bytes]:
        """Chinese has no blanks between words."""
        for word in words:
            if word in self._known:
                yield word
            elif not word.isascii():
                yield from (part for part in _WIDE if part in word)


class Fared:
    """What lines that are alike were of: once many were all of the same entries, the next is taken to be so, too.

    `alike` is the same for such lines; None of a line that is like no other, as one with figures, which may be codes.
    """

    def __init__(self) -> None:
        self._of: dict[int, tuple[tuple[str, ...], int]] = {}

    def sure(self, alike: int | None) -> tuple[str, ...]:
        """The entries; empty where that is not sure."""
        names, times = self._of.get(alike, _NEVER) if alike is not None else _NEVER
        return names if times > PATIENCE else ()

    def note(self, alike: int | None, names: tuple[str, ...]) -> None:
        """How a line fared that was looked at."""
        if alike is None:
            return
        if len(self._of) > ALIKE:
            self._of.clear()
        before, times = self._of.get(alike, (names, 0))
        self._of[alike] = (names, times + 1 if before == names else -(1 << 40))

"""What of a line's words matters, for floods of lines that are all new: found by the C library, no step for each line.

A log may hold millions of errors that no entry knows, each in other words.  Of a line there remain those words that the
catalogue has, in their order: its gist.  Lines of one gist fare alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from launch.diagnose.triggers import CHINESE

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

"""What came back from one host: lines of standard output, read as they come, bounded in size."""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from dataclasses import dataclass, field

from envcheck.fleet import clocks
from envcheck.payload.remote_collector import MARK

BYTES_LIMIT = 8 << 20  # of both streams of a host; a snapshot of 16 cards is 30 KB as it travels
LINES_LIMIT = 20_000  # each is looked at by itself, while other hosts wait
KEPT = 4096  # characters of what was said beside it
_MARK = MARK.encode() + b" "


@dataclass
class Said:
    """`words` are the marked ones, which tell how far it got; `packed` is the document when its sum is right.

    `status` is None where none came, `hung` where the deadline ended it, `flood` where it sent too much.
    """

    host: str
    words: list[str] = field(default_factory=list)
    packed: bytes | None = None
    junk: str = ""
    err: str = ""
    status: int | None = None
    hung: bool = False
    flood: bool = False
    elapsed_s: float = 0.0
    began_at: float = 0.0  # by our clock, when its ssh started
    offset: clocks.Offset | None = None
    lines: int = 0
    _parts: list[bytes] = field(default_factory=list)

    def out_line(self, line: bytes) -> str:
        """The marked word that the line holds, else ""."""
        self.lines += 1
        if not line.startswith(_MARK):
            if line.strip() and len(self.junk) < KEPT:
                self.junk += line[:KEPT].decode("utf-8", "replace") + "\n"
            return ""
        word, _, rest = line[len(_MARK) :].partition(b" ")
        if word == b"data":
            self._data(rest)
            return ""
        if word == b"clock" and self.offset is None and self.began_at:
            self.offset = _offset(rest, self.began_at)
        if word == b"end":
            whole = b"".join(self._parts)
            self.packed = whole if hashlib.sha256(whole).hexdigest().encode() == rest.strip() else None
        if len(self.words) < 16:
            self.words.append(line[len(_MARK) :][:200].decode("utf-8", "replace"))
        return word[:40].decode("utf-8", "replace")

    def err_line(self, line: bytes) -> None:
        """The end is kept: ssh's reason is its last line."""
        self.lines += 1
        self.err = (self.err + line[:KEPT].decode("utf-8", "replace") + "\n")[-KEPT:]

    def _data(self, text: bytes) -> None:
        try:
            self._parts.append(base64.b64decode(text, validate=True))
        except binascii.Error:
            self._parts.append(b"?")  # the sum will be wrong


def _offset(text: bytes, began_at: float) -> clocks.Offset | None:
    """It looked at its clock after its ssh began, and before this came."""
    try:
        there = float(text)
    except ValueError:
        return None
    return clocks.of(there, began_at, time.time()) if 0 < there < 1e11 else None

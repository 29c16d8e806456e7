"""What came back from one host: lines of standard output, read as they come, bounded in size."""

from __future__ import annotations

import base64
import binascii
import json
import time
import zlib
from dataclasses import dataclass, field

from envcheck.collect import snapshot
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer
from envcheck.fleet import clocks
from envcheck.payload.remote_collector import MARK

BYTES_LIMIT = 8 << 20  # of both streams of a host; the answers of 16 cards are 100 KB as they travel
ANSWER_LIMIT = 8 << 20  # bytes of one answer, unpacked
LINES_LIMIT = 20_000  # each is looked at by itself, while other hosts wait
KEPT = 4096  # characters of what was said beside it
_MARK = MARK.encode() + b" "


@dataclass
class HostOutput:
    """`words` are the marked ones, which tell how far it got; `answers` are None until all of them came.

    `status` is None where none came, `hung` where the deadline ended it, `flood` where it sent too much.
    """

    host: str
    words: list[str] = field(default_factory=list)
    answers: dict[str, Answer] | None = None
    unreadable: str = ""
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

    def out_line(self, line: bytes) -> tuple[str, Answer | None]:
        """The marked word that the line holds, else ""; and the answer that it ends."""
        self.lines += 1
        if not line.startswith(_MARK):
            if line.strip() and len(self.junk) < KEPT:
                self.junk += line[:KEPT].decode("utf-8", "replace") + "\n"
            return "", None
        word, _, rest = line[len(_MARK) :].partition(b" ")
        if word in (b"part", b"data"):
            self._parts.append(rest)
            return "", self._read_answer() if word == b"data" else None
        if word == b"clock" and self.offset is None and self.began_at:
            self.offset = _offset(rest, self.began_at)
        if len(self.words) < 16:
            self.words.append(line[len(_MARK) :][:200].decode("utf-8", "replace"))
        return word[:40].decode("utf-8", "replace"), None

    def err_line(self, line: bytes) -> None:
        """The end is kept: ssh's reason is its last line."""
        self.lines += 1
        self.err = (self.err + line[:KEPT].decode("utf-8", "replace") + "\n")[-KEPT:]

    def _read_answer(self) -> Answer | None:
        """None where it is none, which is noted."""
        text, self._parts = b"".join(self._parts), []
        try:
            opener = zlib.decompressobj()
            raw = opener.decompress(base64.b64decode(text, validate=True), ANSWER_LIMIT)
            if opener.unconsumed_tail:
                raise UsageError(f"an answer is larger than {ANSWER_LIMIT >> 20} MiB")
            said = json.loads(raw.decode("utf-8"))
            return snapshot.read_answer("its answer", said.get("key"), said)
        except (binascii.Error, zlib.error, ValueError, AttributeError, RecursionError) as err:
            self.unreadable = f"it does not unpack: {err}"
        except UsageError as err:
            self.unreadable = err.message
        return None


def _offset(text: bytes, began_at: float) -> clocks.Offset | None:
    """It looked at its clock after its ssh began, and before this came."""
    try:
        there = float(text)
    except ValueError:
        return None
    return clocks.of(there, began_at, time.time()) if 0 < there < 1e11 else None

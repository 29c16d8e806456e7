"""Output of one host: lines read as they arrive, with limits on size."""

from __future__ import annotations

import base64
import binascii
import json
import time
import zlib
from dataclasses import dataclass, field

from envcheck.collect import snapshot
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import Answer, Question
from envcheck.fleet import clocks
from envcheck.payload.remote_collector import MARK

BYTES_LIMIT = 8 << 20  # of both streams of a host; the answers of 16 cards have 100 KB when compressed
ANSWER_LIMIT = 8 << 20  # bytes of one answer, uncompressed
LINES_LIMIT = 20_000  # each is parsed while other hosts wait
MARGIN_S = 5.0  # for the way of an answer, beyond the time limit of its question
TEXT_LIMIT = 4096  # characters kept of other output
_MARK = MARK.encode() + b" "


@dataclass
class HostOutput:
    """What a host sent; `words` are the marked words that show its progress; `answers` are None until complete.

    `status` is the exit status, None if unknown; `hung`: the deadline ended it; `flood`: it exceeded a limit.
    `heard_s`: seconds from the start to the last marked line, None without one.  `longest_s`: the largest time limit
    of a question that it was sent.
    """

    host: str
    words: list[str] = field(default_factory=list)
    answers: dict[str, Answer] | None = None
    unreadable: Message = NOTHING
    junk: str = ""
    err: str = ""
    status: int | None = None
    hung: bool = False
    flood: bool = False
    elapsed_s: float = 0.0
    heard_s: float | None = None
    longest_s: float = Question.timeout_s
    began_at: float = 0.0  # local time when its ssh started
    offset: clocks.ClockOffset | None = None
    lines: int = 0
    _parts: list[bytes] = field(default_factory=list)

    @property
    def is_slow(self) -> bool:
        """Whether the host still reported work when the deadline ended it: it needs more time, and does not hang.

        No question takes longer than its time limit, so that a host that is silent for longer than the largest
        hangs."""
        silent_s = self.elapsed_s - (self.heard_s or 0.0)
        limit_s = min(self.longest_s + MARGIN_S, self.elapsed_s / 2)
        return self.hung and self.heard_s is not None and silent_s < limit_s

    def add_output_line(self, line: bytes) -> tuple[str, Answer | None]:
        """Add a line; return the marked word in it, else "", and the answer that it completes."""
        self.lines += 1
        if not line.startswith(_MARK):
            if line.strip() and len(self.junk) < TEXT_LIMIT:
                self.junk += line[:TEXT_LIMIT].decode("utf-8", "replace") + "\n"
            return "", None
        word, _unused, rest = line[len(_MARK) :].partition(b" ")
        if word in (b"part", b"data"):
            self._parts.append(rest)
            return "", self._read_answer() if word == b"data" else None
        if word == b"clock" and self.offset is None and self.began_at:
            self.offset = _estimate_offset(rest, self.began_at)
        if len(self.words) < 16:
            self.words.append(line[len(_MARK) :][:200].decode("utf-8", "replace"))
        return word[:40].decode("utf-8", "replace"), None

    def add_error_line(self, line: bytes) -> None:
        """Add a line of standard error; the end is kept, because ssh's reason is its last line."""
        self.lines += 1
        self.err = (self.err + line[:TEXT_LIMIT].decode("utf-8", "replace") + "\n")[-TEXT_LIMIT:]

    def _read_answer(self) -> Answer | None:
        """Return the answer; None, with a note, if it is invalid."""
        text, self._parts = b"".join(self._parts), []
        try:
            opener = zlib.decompressobj()
            raw = opener.decompress(base64.b64decode(text, validate=True), ANSWER_LIMIT)
            if opener.unconsumed_tail:
                raise UsageError(_("a response is larger than {answer_limit} MiB", answer_limit=ANSWER_LIMIT >> 20))
            document = json.loads(raw.decode("utf-8"))
            return snapshot.read_answer(_("its response"), document.get("key"), document)
        except (binascii.Error, zlib.error, ValueError, AttributeError, RecursionError) as err:
            self.unreadable = _("cannot unpack it: {error}", error=err)
        except UsageError as err:
            self.unreadable = err.message
        return None


def _estimate_offset(text: bytes, began_at: float) -> clocks.ClockOffset | None:
    """Return bounds of the clock offset: the host read its clock after its ssh started and before this line arrived."""
    try:
        there = float(text)
    except ValueError:
        return None
    return clocks.compute_offset(there, began_at, time.time()) if 0 < there < 1e11 else None

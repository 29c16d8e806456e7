"""Python's tracebacks, one at a time, also where several ranks write into one log."""

from __future__ import annotations

import re

from envcheck.explain.model import Raised
from envcheck.explain.text import readable

LINES = 600  # of one traceback; then it is none
_HEAD = re.compile(r"^(.{0,200}?)Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s{0,40}File "([^"]{1,400})", line (\d{1,9}), in (\S{1,200})')
_LAST = re.compile(r"^[A-Za-z_][\w.]{0,200}(?::|$)")
_RANK = re.compile(
    r"\[?(?:default|rank|node)?_?\d{1,5}[\]:]|\[[\w.-]{1,60}:\d{1,5}\]", re.IGNORECASE
)  # of torchrun --tee, mpirun
_FIGURES = re.compile(r"\d+")


class Reader:
    """Lines go in; when the exception's own line comes, the exception comes out."""

    def __init__(self) -> None:
        self.open = False

    def begin(self, line: bytes, file: str, number: int, time: float | None) -> None:
        found = _HEAD.match(readable(line[:1024]))
        self._ahead = found[1] if found else ""
        self._file, self._number, self._time = file, number, time
        self._frames: list[str] = []
        self._read, self._fresh = 0, True
        self.open = True

    def line(self, raw: bytes) -> Raised | None:
        """None until the end of the traceback."""
        self._read += 1
        if self._read > LINES:
            self.open = False
            return None
        text = self._bare(readable(raw[:1024]))
        if text is None or not text.strip() or text[0] in " \t|+":
            self._frame(text or "")
            return None
        if not _LAST.match(text):
            return None
        self.open = False
        return self._raised(text)

    def close(self) -> Raised | None:
        """The log ended in the middle: what is known of it."""
        if not self.open or not self._frames:
            return None
        self.open = False
        return self._raised("an exception whose own line is not in the log")

    def _frame(self, text: str) -> None:
        if found := _FRAME.match(text):
            self._frames = [*self._frames[:1], *self._frames[1:][-30:], f"{found[1]}:{found[2]}, in {found[3]}"]

    def _bare(self, text: str) -> str | None:
        """Without what stands before every line of this rank; None for a line of another one."""
        ahead = self._ahead
        if not ahead:
            return text
        if text.startswith(ahead):
            return text[len(ahead) :]
        if _RANK.match(ahead):
            return None
        # a time before every line changes from one to the next
        size = len(ahead)
        return text[size:] if _FIGURES.sub("", text[:size]) == _FIGURES.sub("", ahead) else text

    def _raised(self, what: str) -> Raised:
        inner = self._frames[-1] if self._frames else ""
        outer = self._frames[0] if len(self._frames) > 1 else ""
        return Raised(what[:600], self._file, self._number, inner, outer, self._time)

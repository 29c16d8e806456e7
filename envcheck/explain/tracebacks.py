"""Recognise Python tracebacks, one at a time, even if several ranks write into one log."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.messages import _
from envcheck.explain import timestamps
from envcheck.explain.diagnosis import RaisedException
from envcheck.explain.exceptions.frames import parse_frame, parse_source
from envcheck.explain.exceptions.message_lines import (
    DETAIL_LINES,
    count_wanted,
    is_message_line,
    is_runtime_report,
    join_continuation,
    join_details,
)
from envcheck.explain.exceptions.notices import has_one_line, is_handled, is_in_handler, is_in_thread, is_reported
from envcheck.explain.log_level import is_refusal
from envcheck.explain.log_text import sanitize_line
from envcheck.explain.processes.line_prefix import drop_count
from envcheck.explain.processes.rank_names import UNIT, find_prefix_rank, find_prefix_unit

MAX_LINES = 600  # lines of one traceback; longer is none
MORE_LINES = 1  # that a message goes on for if its first line ends with a colon
_HEAD = re.compile(r"^(.{0,200}?)Traceback \(most recent call last\)")
# A copy of a log may have lost its indentation: then source lines begin as the exception's line does.
_LAST = re.compile(r"^(?!(?:else|try|finally|pass|continue|break|return|raise|yield)\b)[A-Za-z_][\w.]{0,200}(?::|$)")
# Of torchrun --tee, mpirun, hosts of pdsh, pods of kubectl, containers of compose and tasks of srun.
_RANK = re.compile(
    r"(?:[\w.-]{1,60}: ?)?\[?(?:default|rank|node)?_?\d{1,5}[\]:]|\[[\w.-]{1,60}:\d{1,5}\]"
    rf"|(?=[\w.-]{{0,59}}\d)[\w.-]{{1,60}}: ?$|{UNIT}",
    re.IGNORECASE,
)
_FIGURES = re.compile(r"\d+")
# A logger's prefix with words of its message before the head: `ERROR 02-17 core.py:210] The engine failed: Traceback`.
_LOGGED = re.compile(r"^(.{0,160}\d\] )[^\[\]]{3,120}$")


class TracebackReader:
    """Feed lines; the exception is returned when its own line arrives."""

    def __init__(self) -> None:
        self.open = False

    def start_traceback(
        self, line: bytes, file: str, number: int, time: float | None, own_time: float | None = None, before: str = ""
    ) -> None:
        """Start with the head of a traceback; `own_time` is that of a logger's line to which it belongs.

        `before` is the line before it.
        """
        found = _HEAD.match(sanitize_line(line[:1024]))
        self._ahead = found[1] if found else ""
        logged = _LOGGED.match(self._ahead)
        self._aheads = (self._ahead, logged[1]) if logged else (self._ahead,)
        self._file, self._number, self._time = file, number, time
        self._before = before
        ahead_time = timestamps.parse_timestamp(self._ahead)
        self._own_time = own_time if ahead_time is None else ahead_time
        self._frames: list[str] = []
        self._sources: list[str] = []
        self._headline, self._wanted, self._more = "", 0, MORE_LINES
        self._details: list[str] = []
        self._end = self._last = 0  # number of lines up to the exception's own line, up to the end of its message
        self._after = 0  # number of lines read after its own line
        self.rank, self.unit = find_prefix_rank(self._ahead), find_prefix_unit(self._ahead)
        self._read, self._fresh = 0, True
        self.open = True

    def feed_line(self, raw: bytes) -> RaisedException | None:
        """Return the exception at the end of a traceback, otherwise None."""
        self._read += 1
        if self._read > MAX_LINES and not self._end:
            self.open = False
            return None
        text = self._strip_prefix(drop_count(sanitize_line(raw[:1024])))
        if self._end:
            return self._collect_detail(text)
        if text is not None and self._headline:
            return self._complete_headline(text)
        if text is None or not text.strip() or text[0] in " \t|+" or not _LAST.match(text):
            self._record_frame(text or "")
            return None
        if wanted := count_wanted(text):  # its message begins on the next line
            self._headline, self._wanted = text.rstrip(), wanted
            return None
        self._end_headline(text)
        return None

    def _end_headline(self, text: str) -> None:
        """The exception's own line is complete; lines of its message may follow."""
        self._headline, self._end, self._last = text, self._read, self._read

    def _collect_detail(self, text: str | None) -> RaisedException | None:
        """Keep a line of the message; return the exception where it ends."""
        self._after += 1
        if (
            text is not None and find_prefix_rank(text) is None and (is_handled(text) or is_refusal((text.encode(),)))
        ):  # not of another rank
            self.open = False
            return replace(self._make_exception(self._headline), is_handled=True)
        if text is not None and self._own_time is None and is_runtime_report(text):
            self._own_time = timestamps.parse_timestamp(text)
        is_detail = text is not None and is_message_line(text) and not has_one_line(self._headline)
        if text is not None and is_detail and text.strip():
            self._details.append(text.rstrip())
            self._last = self._read
        if (text is None or is_detail) and self._after < DETAIL_LINES:
            return None
        self.open = False
        return self._make_exception(self._headline)

    def _complete_headline(self, text: str) -> RaisedException | None:
        """The exception with the first line of its message that is not empty."""
        if text.strip():
            self._headline, self._wanted = f"{self._headline} {text.strip()}", self._wanted - 1
        if self._wanted and self._read < MAX_LINES:
            return None
        if self._headline.endswith(":") and self._more:
            self._more, self._wanted = self._more - 1, 1
            return None
        self._end_headline(self._headline)
        return None

    def finish_log(self) -> RaisedException | None:
        """Return what is known of a traceback that the log cut off."""
        if not self.open or not (self._frames or self._end):
            return None
        self.open = False
        if self._headline:
            return self._make_exception(self._headline)
        return replace(self._make_exception(_("the log does not contain the exception line")), is_cut=True)

    def _record_frame(self, text: str) -> None:
        if frame := parse_frame(text):
            self._frames = [*self._frames[:1], *self._frames[1:][-30:], frame]
            self._sources = [*self._sources[:1], *self._sources[1:][-30:], ""]
        elif self._frames and not self._sources[-1]:
            self._sources[-1] = parse_source(text)

    def _strip_prefix(self, text: str) -> str | None:
        """The line without the prefix of this rank; None for a line of another rank."""
        if not self._ahead:
            return text
        if ahead := next((ahead for ahead in self._aheads if text.startswith(ahead)), ""):
            return text[len(ahead) :]
        if _RANK.match(self._ahead):
            return None
        # timestamps differ from line to line
        fits = (ahead for ahead in self._aheads if _drop_figures(text[: len(ahead)]) == _drop_figures(ahead))
        return text[len(next(fits, "")) :]

    def _make_exception(self, what: str) -> RaisedException:
        inner = self._frames[-1] if self._frames else ""
        outer = self._frames[0] if len(self._frames) > 1 else ""
        return RaisedException(
            what[:600],
            self._file,
            self._number,
            inner,
            outer,
            self._time,
            frames=tuple(self._frames[-12:]),
            sources=tuple(self._sources[-12:]),
            rank=self.rank,
            unit=self.unit,
            end=self._number + (self._end or self._read),
            details=join_details(self._details),
            continuation=join_continuation(what, self._details),
            last=self._number + (self._last or self._read),
            own_time=self._own_time,
            is_reported=is_reported(self._before),
            in_handler=is_in_handler(self._before),
            in_thread=is_in_thread(self._before),
        )


def _drop_figures(text: str) -> str:
    return _FIGURES.sub("", text)

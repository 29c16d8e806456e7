"""Builders for the remarks of rules; the rule table adds the rule's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from envcheck.core import suggestions
from envcheck.core.lint.script_model import UNKNOWN, Remark, TextFix
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Status


class TextSpan(Protocol):
    """A part of the file, by byte offsets."""

    @property
    def start(self) -> int:
        """The first offset."""

    @property
    def end(self) -> int:
        """The offset after the last one."""


def _make_remark(severity: Status, at: TextSpan, seen: Message, do: Message, fix: TextFix | None) -> Remark:
    return Remark("", severity, _dotted(seen), _dotted(do), at.start, max(at.end, at.start + 1), fix)


def _dotted(text: Message) -> Message:
    """Return the message with dots in place of unknown values."""
    if UNKNOWN not in text:
        return text
    values = {
        name: _dotted(value)
        if isinstance(value, Message)
        else value.replace(UNKNOWN, "...")
        if isinstance(value, str)
        else value
        for name, value in text.values.items()
    }
    return Message(text.template, values, text.plural, text.number)


def fail(at: TextSpan, seen: Message, do: Message, fix: TextFix | None = None) -> Remark:
    """Return a FAIL remark: the job cannot start, starts the wrong program, or loses work."""
    return _make_remark(Status.FAIL, at, seen, do, fix)


def warn(at: TextSpan, seen: Message, do: Message, fix: TextFix | None = None) -> Remark:
    """Return a WARN remark: the script does, or may do, something other than intended."""
    return _make_remark(Status.WARN, at, seen, do, fix)


def unknown(at: TextSpan, seen: Message, do: Message) -> Remark:
    """Return an UNKNOWN remark: a required fact is missing."""
    return _make_remark(Status.UNKNOWN, at, seen, do, None)


def unknown_here(at: TextSpan, seen: Message, do: Message) -> Remark:
    """Return an UNKNOWN remark about the host: this one is not the script's, or has no such device."""
    return replace(unknown(at, seen, do), of_host=True)


def note(at: TextSpan, seen: Message, do: Message, fix: TextFix | None = None) -> Remark:
    """Return an INFO remark: advice that does not count."""
    return _make_remark(Status.OK, at, seen, do, fix)


def warn_or_fail(sure: bool, at: TextSpan, seen: Message, do: Message, fix: TextFix | None = None) -> Remark:
    """Return a FAIL remark if `sure`, else a WARN remark."""
    return fail(at, seen, do, fix) if sure else warn(at, seen, do, fix)


def replace_span(at: TextSpan, text: str) -> TextFix:
    """Return a fix that replaces the span by the text."""
    return TextFix(((at.start, at.end, text),))


def format_names(names: Iterable[str], most: int = 4) -> str:
    """Return the first few names, and how many more there are."""
    all_ = list(dict.fromkeys(names))
    shown = join(", ", all_[:most])
    return _("{names} and {count} more", names=shown, count=len(all_) - most) if len(all_) > most else shown


@lru_cache(maxsize=4096)
def find_similar_name(name: str, names: frozenset[str], cutoff: float = 0.8) -> str:
    """Return the known name with the most similar spelling; "" if there is none."""
    if len(name) > 80:
        return ""
    turned = (name[:n] + name[n + 1] + name[n] + name[n + 2 :] for n in range(len(name) - 1))
    if len(name) > 3 and (found := next((each for each in turned if each in names), "")):
        return found  # transposed letters, which the ratio counts as two errors
    return next(iter(suggestions.find_close(name, names, 1, cutoff)), "")

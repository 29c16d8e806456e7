"""The options of a command as they stand there: name, values, places; the same for a configuration's keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envcheck.core.lint.model import UNKNOWN, Word


@dataclass(frozen=True)
class GivenOption:
    """An option that is given: `name` without dashes; `start` to `end` is the name, `stop` where its values end."""

    name: str
    values: tuple[Word, ...]
    start: int
    end: int
    equals: bool = False
    key: bool = False  # of a configuration
    written: str = ""  # the beginning that stands there for the name

    @property
    def stop(self) -> int:
        return max([self.end, *(word.end for word in self.values)])

    @property
    def value(self) -> str | None:
        """The one value; None if there is none, several, or an unknown one."""
        return self.values[0].plain if len(self.values) == 1 else None

    @property
    def soft(self) -> bool:
        return any(word.soft for word in self.values)

    @property
    def plain(self) -> str:
        """The name as Python's parsers keep it."""
        return self.name.replace("-", "_")

    @property
    def on(self) -> bool:
        """A truth that is given: bare, or anything but false, 0, no, off."""
        return self.value is None or self.value.lower() not in ("false", "0", "no", "off", "none", "")


def last_option(options: Iterable[GivenOption], *names: str) -> GivenOption | None:
    """The one that counts: parsers keep the last.  Names with _ ; those of the script may have -."""
    return next((each for each in reversed(list(options)) if each.plain in names), None)


def place_of(given: GivenOption) -> Word:
    """Where a remark on it points: its last value, with its name in front where that is of a command line."""
    last = given.values[-1] if given.values else Word("", given.start, given.end)
    return (
        Word("", min(given.start, last.start) if not given.key else last.start, max(given.end, last.end))
        if last.start >= given.start
        else last
    )


def number(text: str | None) -> int | None:
    """A whole number as options have it: 8, "8", 1_000 and 1e3 are none that every parser takes."""
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,12}", text.strip()) else None


def figure(text: str | None) -> float | None:
    try:
        return float(text) if text is not None and UNKNOWN not in text else None
    except ValueError:
        return None

"""The options of a command as written: name, values, positions; the same for the keys of a configuration file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envcheck.core.lint.script_model import UNKNOWN, ShellWord


@dataclass(frozen=True)
class GivenOption:
    """An option; `name` is without dashes; the name is from `start` to `end`."""

    name: str
    values: tuple[ShellWord, ...]
    start: int
    end: int
    equals: bool = False
    key: bool = False  # a key of a configuration file
    written: str = ""  # the abbreviation as written

    @property
    def value(self) -> str | None:
        """The value; None if there is none, several, or an unknown one."""
        return self.values[0].known_text if len(self.values) == 1 else None

    @property
    def is_replaceable(self) -> bool:
        """Whether a value has a default that the environment can replace."""
        return any(word.soft for word in self.values)

    @property
    def python_name(self) -> str:
        """The name with underscores, as Python's parsers store it."""
        return self.name.replace("-", "_")

    @property
    def is_enabled(self) -> bool:
        """Whether a boolean option is on: without a value, or with any but false, 0, no, off."""
        return self.value is None or self.value.lower() not in ("false", "0", "no", "off", "none", "")


def find_last_option(options: Iterable[GivenOption], *names: str) -> GivenOption | None:
    """Return the last option with one of these names, as parsers do.  Names have underscores; those in the script may
    have dashes."""
    return next((each for each in reversed(list(options)) if each.python_name in names), None)


def locate_option(given: GivenOption) -> ShellWord:
    """Return the position of a remark: the last value, with the option's name on a command line."""
    last = given.values[-1] if given.values else ShellWord("", given.start, given.end)
    return (
        ShellWord("", min(given.start, last.start) if not given.key else last.start, max(given.end, last.end))
        if last.start >= given.start
        else last
    )


def parse_integer(text: str | None) -> int | None:
    """Return an integer option value; None for text such as 1_000 or 1e3, which not every parser accepts."""
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,12}", text.strip()) else None


def parse_float(text: str | None) -> float | None:
    """Return a float option value, None if it is not one."""
    try:
        return float(text) if text is not None and UNKNOWN not in text else None
    except ValueError:
        return None

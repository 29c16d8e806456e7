"""The options of a command as they stand there: name, values, places; the same for a configuration's keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envcheck.core.lint.model import Config, Word

_NAME = re.compile(r"--[A-Za-z][\w.-]*")
_SHORT = re.compile(r"-[A-Za-z]")


@dataclass(frozen=True)
class Given:
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


def given(words: Sequence[Word]) -> list[Given]:
    """The options of words that begin with one; a negative number is a value."""
    found: list[Given] = []
    for word in words:
        if _NAME.match(word.text) and not (word.quoted and " " in word.text):
            name, equals, value = word.text[2:].partition("=")
            values = (Word(value, word.start + 3 + len(name), word.end, soft=word.soft),) if equals else ()
            end = word.start + 2 + len(name) if equals else word.end
            found.append(Given(name, values, word.start, end, bool(equals)))
        elif _SHORT.fullmatch(word.text) and not word.quoted:  # -m: it takes what follows, and is none of these
            found.append(Given("-", (), word.start, word.end))
        elif found and not found[-1].equals and not (word.many and found[-1].values):
            last = found[-1]
            found[-1] = Given(last.name, (*last.values, word), last.start, last.end)
    return [each for each in found if each.name != "-"]


def of_config(config: Config) -> list[Given]:
    """The keys of a configuration as options."""
    made = []
    for entry in config.entries:
        if not entry.path and entry.kind != "map":
            values = tuple(Word(text, entry.value_start, entry.value_end) for text in entry.values)
            made.append(Given(entry.name, values, entry.start, entry.end, key=True))
    return made


def last(options: Iterable[Given], *names: str) -> Given | None:
    """The one that counts: parsers keep the last.  Names with _ ; those of the script may have -."""
    return next((each for each in reversed(list(options)) if each.plain in names), None)

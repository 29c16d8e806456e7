"""Parse the options of a command line, and configuration keys as options."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.script_model import ConfigBlock, ShellWord

_NAME = re.compile(r"--[A-Za-z][\w.-]*")
_SHORT = re.compile(r"-[A-Za-z]")


def parse_options(words: Sequence[ShellWord]) -> list[GivenOption]:
    """Return the options in words that begin with an option; a negative number is a value."""
    found: list[GivenOption] = []
    for word in words:
        if _NAME.match(word.text) and not (word.quoted and " " in word.text):
            name, equals, value = word.text[2:].partition("=")
            raw = word.raw.partition("=")[2]
            values = (
                (ShellWord(value, word.start + 3 + len(name), word.end, soft=word.soft, raw=raw),) if equals else ()
            )
            end = word.start + 2 + len(name) if equals else word.end
            found.append(GivenOption(name, values, word.start, end, bool(equals)))
        elif _SHORT.fullmatch(word.text) and not word.quoted:  # -m takes the next word and ends the options
            found.append(GivenOption("-", (), word.start, word.end))
        elif found and not found[-1].equals and not (word.many and found[-1].values):
            last = found[-1]
            found[-1] = GivenOption(last.name, (*last.values, word), last.start, last.end)
    return [each for each in found if each.name != "-"]


def read_config_options(config: ConfigBlock) -> list[GivenOption]:
    """Return the keys of a configuration as options."""
    made = []
    for entry in config.entries:
        if not entry.path and entry.kind != "map":
            values = tuple(ShellWord(text, entry.value_start, entry.value_end) for text in entry.values)
            made.append(GivenOption(entry.name, values, entry.start, entry.end, key=True))
    return made

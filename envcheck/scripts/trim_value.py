"""${name%pattern} and similar: a value without what a pattern matches at one of its ends."""

from __future__ import annotations

import fnmatch
import re

from envcheck.core.lint.script_model import UNKNOWN

LONGEST = 256  # maximum characters of a value that is trimmed: a pattern is tried at each place, in steps to the end
_OPERATORS = ("%%", "##", "%", "#")


def trim_value(text: str, rest: str) -> str | None:
    """Return the value of ${name<rest>}; None if `rest` trims nothing, or by a pattern that is not literal."""
    mark = next((each for each in _OPERATORS if rest.startswith(each)), "")
    pattern = rest[len(mark) :]
    if not mark or not pattern or re.search(r"[$`\\'\"]", pattern) or len(text) > LONGEST:
        return None
    if UNKNOWN in text:
        return UNKNOWN
    matches = re.compile(fnmatch.translate(pattern)).match
    places = range(len(text) + 1)
    if "%" in mark:
        ends = places if mark == "%%" else reversed(places)  # the longest suffix begins first
        return next((text[:at] for at in ends if matches(text[at:])), text)
    ends = reversed(places) if mark == "##" else places
    return next((text[at:] for at in ends if matches(text[:at])), text)

"""A fast path for follow-up answers that consist only of `key : value` lines with distinct keys.

        NPU ID                         : 0
        HBM Double Bit Error Count     : 0
        Chip ID                        : 0

A host has a hundred of these answers, and most are as simple as this.  For anything else (two chips, an error, a
prompt) the result is None, and the tool's own parser reads it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from envcheck.core.tool_text import cell_text

Value = str | int | None
_KEY = re.compile(r"[ \t]*([A-Za-z](?:[\w ()%./-]*[\w()%./-])?)[ \t]*")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")  # 00001025 is a serial number
_MORE = ""  # marks a line that is more than a pair; no real key is empty
LIMIT = 4096  # characters; the longest simple answer, a board, has about 1,500


def parse_pairs(text: str) -> dict[str, Value] | None:
    """Return the pairs, with numbers as int and the vendors' spellings of an empty value as None; None if there is
    other text."""
    if len(text) > LIMIT:
        return None
    pairs = [pair for pair in map(_parse_pair, text.split("\n")) if pair]
    found = dict(pairs)
    return found if found and len(found) == len(pairs) and _MORE not in found else None


# A fleet's answers repeat the same lines thousands of times: each is parsed once.
@lru_cache(maxsize=8192)
def _parse_pair(line: str) -> tuple[str, Value] | None:
    """Return key and value; None for a blank line, _MORE as the key if the line is more than a pair."""
    left, colon, right = line.partition(":")
    if not colon and not left.strip(" \t\r"):
        return None
    named = _KEY.fullmatch(left) if colon else None
    if named is None or "[" in right:  # tls switch[0](0:disable, 1:enable): several pairs on one line
        return _MORE, None
    text = right.strip(" \t\r")
    return named[1], int(text) if _WHOLE.fullmatch(text) else cell_text(text)

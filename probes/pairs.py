"""The quick way through a follow-up's answer that is nothing but `key : value` lines, each key once.

        NPU ID                         : 0
        HBM Double Bit Error Count     : 0
        Chip ID                        : 0
One host has a hundred of these, and all but a few are as plain as this.  Anything else (two chips, an error, a prompt)
is None here, and the tool's own parser reads it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from envcheck.core.text import said

Value = str | int | None
_KEY = re.compile(r"[ \t]*([A-Za-z][\w ()%./-]*?)[ \t]*")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")  # 00001025 is a serial number
_MORE = ""  # no key is empty
LIMIT = 4096  # characters; the longest plain answer is a board of some 1,500


def read(text: str) -> dict[str, Value] | None:
    """The pairs, numbers as numbers and the vendors' words for nothing as None; None where there is more than pairs."""
    if len(text) > LIMIT:
        return None
    told = [pair for pair in map(_pair, text.split("\n")) if pair]
    found = dict(told)
    return found if found and len(found) == len(told) and _MORE not in found else None


# A fleet's answers say the same lines thousands of times: each is taken apart once.
@lru_cache(maxsize=8192)
def _pair(line: str) -> tuple[str, Value] | None:
    """Key and value; None for a blank line, _MORE as the key where there is more than a pair."""
    left, colon, right = line.partition(":")
    if not colon and not left.strip(" \t\r"):
        return None
    named = _KEY.fullmatch(left) if colon else None
    if named is None or "[" in right:  # tls switch[0](0:disable, 1:enable): several on one line
        return _MORE, None
    text = right.strip(" \t\r")
    return named[1], int(text) if _WHOLE.fullmatch(text) else said(text)

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

from probes.text import said

Value = str | int | None
_KEY = re.compile(r"[ \t]*([A-Za-z][\w ()%./-]*?)[ \t]*")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")  # 00001025 is a serial number
_LIMIT = 4096  # characters; the longest plain answer is a board of some 1,500


def read(text: str) -> dict[str, Value] | None:
    """The pairs, numbers as numbers and the vendors' words for nothing as None; None where there is more than pairs."""
    if len(text) > _LIMIT:
        return None
    found: dict[str, Value] = {}
    for line in text.split("\n"):
        left, colon, right = line.partition(":")
        if not colon and not left.strip(" \t\r"):
            continue
        key = _key(left) if colon else None
        if key is None or key in found or "[" in right:  # tls switch[0](0:disable, 1:enable): several on one line
            return None
        found[key] = _value(right.strip(" \t\r"))
    return found or None


# A fleet's answers say the same keys, and mostly the same values, thousands of times.
@lru_cache(maxsize=4096)
def _key(left: str) -> str | None:
    named = _KEY.fullmatch(left)
    return named[1] if named else None


@lru_cache(maxsize=4096)
def _value(text: str) -> Value:
    return int(text) if _WHOLE.fullmatch(text) else said(text)

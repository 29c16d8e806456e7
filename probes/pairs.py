"""The quick way through a follow-up's answer that is nothing but `key : value` lines, each key once.

        NPU ID                         : 0
        HBM Double Bit Error Count     : 0
        Chip ID                        : 0
One host has a hundred of these, and all but a few are as plain as this.  Anything else (two chips, an error, a prompt)
is None here, and the tool's own parser reads it.
"""

from __future__ import annotations

import re

from probes.text import said

Value = str | int | None
_PAIR = re.compile(r"[ \t]*([A-Za-z][\w ()%./-]*?)[ \t]*:[ \t]*([^\n]*?)[ \t]*\r?(?:\n|$)|[ \t]*\r?\n")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")  # 00001025 is a serial number
_LIMIT = 4096  # characters; the longest plain answer is a board of some 1,500


def read(text: str) -> dict[str, Value] | None:
    """The pairs, numbers as numbers and the vendors' words for nothing as None; None where there is more than pairs."""
    found: dict[str, Value] = {}
    at = 0
    while at < len(text) <= _LIMIT:
        line = _PAIR.match(text, at)
        if line is None or line[1] in found:
            return None
        if line[1]:
            found[line[1]] = int(line[2]) if _WHOLE.fullmatch(line[2]) else said(line[2])
        at = line.end()
    return found if found and at == len(text) else None

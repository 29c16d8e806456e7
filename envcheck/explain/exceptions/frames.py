"""The frames of a Python traceback, line by line; pure."""

from __future__ import annotations

import re

SOURCE_WIDTH = 200  # characters of a source line that are kept
_FRAME = re.compile(r'^\s{0,40}File "([^"]{1,400})", line (\d{1,9}), in (\S{1,200})')


def parse_frame(line: str) -> str | None:
    """Return `path:line, in function` if the line begins a frame, else None."""
    found = _FRAME.match(line)
    return f"{found[1]}:{found[2]}, in {found[3]}" if found else None


def parse_source(line: str) -> str:
    """Return the source line that follows a frame; "" for an empty line and for marks below a source line."""
    text = line.strip()
    return "" if text[:1] in ("^", "~", "+", "|") else text[:SOURCE_WIDTH]

"""A log's bytes as text that may be shown: no secrets, no control characters, one line."""

from __future__ import annotations

import re

from envcheck.core.secrets import redact
from envcheck.core.text import plain

LIMIT = 2048
PRINTABLE = bytes(range(32, 127))  # and ASCII
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # what makes a text read as what it is not


def readable(raw: bytes) -> str:
    """What of a line may be shown: its first LIMIT characters."""
    flat = _flat(raw) if raw.translate(None, PRINTABLE) else raw[: LIMIT * 2].decode("ascii").rstrip()
    return redact(flat[:LIMIT])


def _flat(raw: bytes) -> str:
    """Decoded as UTF-8, else as GB 18030 (Chinese consoles), else with marks in place of what is neither."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = raw.decode("gb18030") if raw.isascii() is False and b"\x00" not in raw else raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
    flat = _BIDI.sub("", plain(text[: LIMIT * 2])).replace("\t", " ").rstrip()
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    return flat

"""A log's bytes as text that is safe to show: without secrets and control characters, on one line."""

from __future__ import annotations

import re

from envcheck.core.secrets import redact_text
from envcheck.core.tool_text import strip_escapes

LIMIT = 2048
PRINTABLE = bytes(range(32, 127))  # and ASCII
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # characters that can disguise text


def sanitize_line(raw: bytes) -> str:
    """Return what may be shown of a line: its first LIMIT characters, sanitised."""
    flat = _decode_line(raw) if raw.translate(None, PRINTABLE) else raw[: LIMIT * 2].decode("ascii").rstrip()
    return redact_text(flat[:LIMIT])


def _decode_line(raw: bytes) -> str:
    """Decoded as UTF-8, otherwise as GB 18030 (Chinese consoles), otherwise with replacement characters."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = raw.decode("gb18030") if raw.isascii() is False and b"\x00" not in raw else raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
    flat = _BIDI.sub("", strip_escapes(text[: LIMIT * 2])).replace("\t", " ").rstrip()
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    return flat

"""Detect UTF-16 without a mark, and files that are no text; pure."""

from __future__ import annotations

import re

LOOKED_AT = 1 << 13  # bytes at the start of a file
_WIDE_SHARE = 0.4  # of the bytes at one parity are NUL in UTF-16 of mostly Latin text
# Printable ASCII and line ends, general and Chinese punctuation, Chinese characters, full-width forms.
_PLAIN = re.compile("[\t\n\r -~\u2000-\u206f\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_PLAIN_SHARE = 0.95
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b\x07")) + b"\x7f"
_CONTROL_SHARE = 0.05
_MAGIC = {
    b"\x7fELF": "an ELF program or library",
    b"PK\x03\x04": "a zip archive, or weights saved by torch",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"%PDF": "a PDF document",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"BZh": "compressed by bzip2",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"SQLite format 3": "a data base",
    b"PAR1": "a parquet file",
    b"\x93NUMPY": "a numpy array",
}


def detect_wide(first: bytes) -> str | None:
    """Return utf-16-le or utf-16-be for text in UTF-16 without a mark; None for anything else."""
    part = first[:LOOKED_AT]
    if len(part) < 4 or 0 not in part:
        return None
    even, odd = part[0::2], part[1::2]
    if odd.count(0) > _WIDE_SHARE * len(odd) and even.count(0) < 0.05 * len(even):
        return "utf-16-le"
    if even.count(0) > _WIDE_SHARE * len(even) and odd.count(0) < 0.05 * len(odd):
        return "utf-16-be"
    return next((code for code in ("utf-16-le", "utf-16-be") if _is_plain_text(part, code)), None)


def _is_plain_text(part: bytes, code: str) -> bool:
    """Return whether nearly all characters are those of Latin or Chinese text, with line ends."""
    text = part[: len(part) // 2 * 2].decode(code, "replace")
    return "\n" in text and len(_PLAIN.findall(text)) > _PLAIN_SHARE * len(text)


def describe_binary(first: bytes) -> str | None:
    """Return what a file is that holds no text; None for text.  UTF-16 is to be ruled out before."""
    for magic, kind in _MAGIC.items():
        if first.startswith(magic):
            return kind
    part = first[:LOOKED_AT]
    controls = len(part) - len(part.translate(None, _CONTROLS))
    return "a binary file" if len(part) >= 64 and controls > _CONTROL_SHARE * len(part) else None

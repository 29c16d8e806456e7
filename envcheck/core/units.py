"""Formatting and parsing of sizes."""

from __future__ import annotations

import re

from envcheck.core.messages import _

MIB = 1 << 20
GIB = 1 << 30
_SIZES = {"": 1, "B": 1, "K": 1 << 10, "M": MIB, "G": GIB, "T": 1 << 40}


def format_gib(size_bytes: float) -> str:
    """Return a size in bytes as '15.6 GiB'."""
    return f"{size_bytes / GIB:.1f} GiB"


def format_mib(count: float) -> str:
    """Return a number of MiB as '512 MiB', '64 GiB' or '14 KiB'."""
    if 0 < count < 0.5:
        return f"{max(1, round(count * 1024))} KiB"
    return f"{count:.0f} MiB" if count < 1024 else f"{count / 1024:.1f} GiB".replace(".0 ", " ")


def parse_size(text: str) -> int:
    """Return the bytes of '128G', '64m' or '16GiB', in powers of 1024 as Docker uses them.  Raises ValueError
    otherwise."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if not found:
        raise ValueError(_("{text!r} is not a valid size; for example, use 128G", text=text))
    return int(float(found[1]) * _SIZES[found[2].upper()])

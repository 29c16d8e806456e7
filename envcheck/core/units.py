"""Numbers with units, both ways; one place each."""

from __future__ import annotations

import re

MIB = 1 << 20
GIB = 1 << 30
_SIZES = {"": 1, "B": 1, "K": 1 << 10, "M": MIB, "G": GIB, "T": 1 << 40}


def gib(size_bytes: float) -> str:
    """'15.6 GiB' for people."""
    return f"{size_bytes / GIB:.1f} GiB"


def mib(count: float) -> str:
    """MiB for people: '512 MiB', '64 GiB' where it divides well enough, '14 KiB' where it is not yet one half."""
    if 0 < count < 0.5:
        return f"{max(1, round(count * 1024))} KiB"
    return f"{count:.0f} MiB" if count < 1024 else f"{count / 1024:.1f} GiB".replace(".0 ", " ")


def size_bytes(text: str) -> int:
    """'128G', '64m', '16GiB' as Docker reads them: powers of 1024.  Raises ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.I)
    if not found:
        raise ValueError(f"{text!r} is no size; write for example 128G")
    return int(float(found[1]) * _SIZES[found[2].upper()])

"""Sums of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """Of a file of any size."""
    known = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            known.update(chunk)
    return known.hexdigest()

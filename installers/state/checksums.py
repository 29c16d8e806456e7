"""Checksums of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

CHUNK = 1 << 20


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file of any size, in hexadecimal."""
    known = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            known.update(chunk)
    return known.hexdigest()

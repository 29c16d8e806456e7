"""What travels to another machine: bytes, known by their sha256."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STAMP = (1980, 1, 1, 0, 0, 0)  # the same sources give the same file


@dataclass(frozen=True)
class Payload:
    data: bytes
    digest: str

    @classmethod
    def of(cls, data: bytes) -> Payload:
        return cls(data, hashlib.sha256(data).hexdigest())


def pack_zip(files: Iterable[tuple[str, bytes]], first: bytes = b"") -> bytes:
    """(name, content) as a zip behind `first`, sorted by name; the same files give the same bytes."""
    file = io.BytesIO()
    file.write(first)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, STAMP), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()

"""Data that is sent to other hosts, identified by its sha256."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STAMP = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same sources give the same file


@dataclass(frozen=True)
class Payload:
    """Bytes with their sha256 in hexadecimal digits."""

    data: bytes
    digest: str

    @classmethod
    def from_data(cls, data: bytes) -> Payload:
        """Return the payload of these bytes."""
        return cls(data, hashlib.sha256(data).hexdigest())


def pack_zip(files: Iterable[tuple[str, bytes]], first: bytes = b"") -> bytes:
    """Return a zip of (name, content), sorted by name, with `first` in front; the same files give the same bytes."""
    file = io.BytesIO()
    file.write(first)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, STAMP), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()

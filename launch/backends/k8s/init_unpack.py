"""In the init container: unpacks envcheck beside the scripts, and runs it.  Stands alone."""

from __future__ import annotations

import hashlib
import io
import runpy
import sys
from pathlib import Path

SENT, KIT = Path("/envcheck/sent"), Path("/envcheck/kit")


def unpacked(digest: str) -> None:
    """What was sent, below KIT; it is what the job names, by its sum."""
    import tarfile

    data, own = (SENT / "kit").read_bytes(), (SENT / "board.py").read_bytes()
    if hashlib.sha256(data + own).hexdigest() != digest:
        sys.exit("envcheck: what was sent to this pod is not what the job names: submit it again")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:xz") as archive:
        for entry in archive:
            path = KIT / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            found = archive.extractfile(entry)
            path.write_bytes(found.read() if found else b"")


def main(words: list[str]) -> None:
    if tuple(sys.version_info) < (3, 10):
        sys.exit(f"envcheck: Python {sys.version.split()[0]} is in this image, and the gates want 3.10 or newer")
    unpacked(words[0])
    sys.path.insert(0, str(KIT))
    sys.path.append(str(KIT / "spare"))
    sys.argv = ["envcheck", *words[1:]]
    runpy.run_module("envcheck", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

"""envcheck itself, packed for the init container: its image needs no more than Python 3.10.  Named by its content."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.fleet import kept

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("envcheck", "probes", "installers", "launch")
LIBRARIES = ("click", "packaging")  # pure Python, and all that the gates import besides psutil
# What no gate loads: a ConfigMap holds a MiB.
WITHOUT = (
    *("envcheck/lint", "envcheck/simulation", "envcheck/schemas", "envcheck/deep", "envcheck/language/zh"),
    *("envcheck/reports/templates", "launch/inference", "launch/diagnose/entries", "launch/k8s", "launch/slurm"),
)
SPARE = "spare"  # a folder of what is used where the image has none of its own: psutil is compiled
LIMIT = 900 << 10  # bytes, of a MiB, to leave room; a test holds it


@dataclass(frozen=True)
class Kit:
    """`digest` is the sum of the packed file, which `board` checks before it unpacks."""

    digest: str
    base64: str
    board: str


@cache
def kit() -> Kit:
    data = kept.through([ROOT / folder for folder in FOLDERS], packed)
    board = Path(__file__).with_name("board.py").read_text(encoding="utf-8")
    digest = hashlib.sha256(data + board.encode()).hexdigest()
    return Kit(digest, base64.b64encode(data).decode(), board)


def packed() -> bytes:
    """The same bytes of the same sources."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz") as archive:
        for name, path in sorted(_files()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and path.suffix in (".py", ".toml", ".txt") and not name.startswith(WITHOUT):
                yield name, path
    for library in LIBRARIES:
        found = importlib.util.find_spec(library)
        assert found and found.origin
        for path in Path(found.origin).parent.rglob("*.py"):
            yield f"{library}/{path.relative_to(Path(found.origin).parent).as_posix()}", path
    yield f"{SPARE}/psutil.py", Path(__file__).with_name("spare.py")

"""Files of this side that a command on the nodes names: a folder of recipes, a lock.  They travel as one zip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.payload.content import Payload, pack_zip

LIMIT = 4 << 20
RECIPES = "*.toml"


def packed(paths: Mapping[str, Path]) -> Payload | None:
    """Name there → path here; of a folder its recipes.  None where there are none."""
    if not paths:
        return None
    files, size = list[tuple[str, bytes]](), 0
    for name, path in sorted(paths.items()):
        for inside, each in _files(name, path):
            files.append((inside, _read(each)))
            size += len(files[-1][1])
            if size > LIMIT:
                raise UsageError(f"{path} is larger than {LIMIT >> 20} MiB, too much to carry to each host",
                                 "name a smaller one")  # fmt: skip
    return Payload.of(pack_zip(files))


def _files(name: str, path: Path) -> list[tuple[str, Path]]:
    if path.is_dir():
        return [(f"{name}/{each.name}", each) for each in sorted(path.glob(RECIPES)) if each.is_file()]
    return [(name, path)]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {(err.strerror or str(err)).lower()}", f"ls -l {path}") from None

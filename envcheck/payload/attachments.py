"""Local files that a command on the nodes needs, such as recipes or a lock file; sent as one zip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import _, verbatim
from envcheck.payload.content import Payload, pack_zip

LIMIT = 4 << 20
RECIPES = "*.toml"


def pack_files(paths: Mapping[str, Path]) -> Payload | None:
    """Return a zip of these files by their name on the node; of a folder, its recipes. None if there are no files."""
    if not paths:
        return None
    files, size = list[tuple[str, bytes]](), 0
    for name, path in sorted(paths.items()):
        for inside, each in _list_files(name, path):
            files.append((inside, _read_file(each)))
            size += len(files[-1][1])
            if size > LIMIT:
                raise UsageError(
                    _(
                        "{path} is larger than {limit} MiB, too large to copy to each host",
                        path=path,
                        limit=LIMIT >> 20,
                    ),
                    _("specify a smaller file"),
                )
    return Payload.from_data(pack_zip(files))


def _list_files(name: str, path: Path) -> list[tuple[str, Path]]:
    if path.is_dir():
        return [(f"{name}/{each.name}", each) for each in sorted(path.glob(RECIPES)) if each.is_file()]
    return [(name, path)]


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as err:
        raise UsageError(
            _("cannot read {path}: {strerror}", path=path, strerror=describe_os_error(err)),
            verbatim(f"ls -l {path}"),
        ) from None

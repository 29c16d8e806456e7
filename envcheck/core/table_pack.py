"""The TOML tables of envcheck's own packages in one file each: smaller in a wheel, and read without a TOML parser.

A package of a wheel has this file instead of its tables; a checkout has the tables and no such file.  Each line is the
path of a table, a tab and its content as JSON: the parsed table, or the text of a file that users copy.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _

ROOT = Path(__file__).parents[2]  # the folder of the packages
NAME = "tables.xz"
COPIED = ("installers/recipes/", "envcheck/simulate/machines/")  # folders of files that users copy and change


def find_packed(path: Path) -> dict[str, Any] | str | None:
    """Return the table, or the text of a file that users copy; None if there is no pack with such a file."""
    line = _read_pack(path).get(str(path))
    return None if line is None else json.loads(line)


def has_file(path: Path) -> bool:
    """Return whether the file exists, or is packed."""
    return path.is_file() or str(path) in _read_pack(path)


def list_packed(folder: Path) -> list[Path]:
    """Return the paths of the tables in a folder that the pack has."""
    return [path for path in map(Path, _read_pack(folder)) if path.parent == folder]


def _read_pack(path: Path) -> Mapping[str, str]:
    """Return the JSON of each packed table of the package that has this path; {} in a checkout."""
    inside = str(path).removeprefix(f"{ROOT}/").partition("/")[0]
    return _read_lines(f"{ROOT}/{inside}/{NAME}") if inside else {}


@functools.cache
def _read_lines(file: str) -> Mapping[str, str]:
    if not Path(file).is_file():
        return {}
    try:
        import lzma
    except ImportError:
        raise UsageError(
            _("this Python has no lzma module, which envcheck needs to read its tables"),
            _("install envcheck with another Python, or rebuild this one after installing liblzma-dev or xz-devel"),
        ) from None
    lines = lzma.decompress(Path(file).read_bytes()).decode().split("\n")
    return {f"{ROOT}/{path}": line for path, _tab, line in (each.partition("\t") for each in lines if each)}


def pack_tables(root: Path, paths: Iterable[Path], parse: Callable[[str], Mapping[str, Any]]) -> bytes:
    """Return the pack of these files below `root`, which `parse` reads; the same files give the same bytes."""
    import lzma

    return lzma.compress("\n".join(encode_tables(root, paths, parse)).encode(), preset=9 | lzma.PRESET_EXTREME)


def encode_tables(root: Path, paths: Iterable[Path], parse: Callable[[str], Mapping[str, Any]]) -> Iterator[str]:
    """Yield the line of each file.  TypeError for a date, which JSON has not."""
    for path in sorted(paths):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        content = text if name.startswith(COPIED) else parse(text)
        yield f"{name}\t{json.dumps(content, ensure_ascii=False, separators=(',', ':'))}"

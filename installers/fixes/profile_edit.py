"""A shell's profile changed by whole lines, and changed back: all other bytes stay, as do its owner, mode and link."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from envcheck.core.errors import StepError

MARK = b"# envcheck: "


def comment_out(file: str, lines: Sequence[str], numbers: Sequence[int]) -> None:
    """Lines by their numbers, from 1.  StepError where the file is not as it was read."""
    path, rows = _rows(file)
    for number, line in zip(numbers, lines, strict=True):
        if rows[number - 1 : number] != [_bytes(line)]:
            raise StepError(f"{file} has changed meanwhile", "look again: envcheck doctor --fix")
        rows[number - 1] = MARK + rows[number - 1]
    _write(path, rows)


def restore(file: str, lines: Sequence[str], numbers: Sequence[int]) -> bool:
    """Those that still bear the mark: wherever the line stands now, or at its number where a secret was left out."""
    path, rows = _rows(file)
    known = {MARK + _bytes(line) for line in lines}
    back = [n for n, row in enumerate(rows, 1) if row in known or (n in numbers and row.startswith(MARK))]
    for n in back:
        rows[n - 1] = rows[n - 1].removeprefix(MARK)
    if back:
        _write(path, rows)
    return bool(back)


def _bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


def _rows(file: str) -> tuple[Path, list[bytes]]:
    """Behind a link, its target's."""
    path = Path(file).resolve()
    return path, path.read_bytes().split(b"\n")


def _write(path: Path, rows: Sequence[bytes]) -> None:
    """Whole or not at all; nobody reads it meanwhile who may not read the old one."""
    new = path.with_name(f".{path.name}.envcheck")
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(b"\n".join(rows))
        shutil.copystat(path, new)
        with contextlib.suppress(PermissionError):
            os.chown(new, path.stat().st_uid, path.stat().st_gid)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise

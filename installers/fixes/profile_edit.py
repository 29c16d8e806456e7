"""Comment out and restore whole lines of a shell profile; all other bytes, owner, mode and links are preserved."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.core.messages import _

MARK = b"# envcheck: "


def comment_out(file: str, lines: Sequence[str], numbers: Sequence[int]) -> None:
    """Comment out lines by number, counted from 1.  StepError if the file has changed since it was read."""
    path, rows = _read_rows(file)
    for number, line in zip(numbers, lines, strict=True):
        if rows[number - 1 : number] != [_encode_line(line)]:
            raise StepError(
                _("{file} has changed since it was read", file=file), _("run `envcheck doctor --fix` again")
            )
        rows[number - 1] = MARK + rows[number - 1]
    _write_rows(path, rows)


def restore_lines(file: str, lines: Sequence[str], numbers: Sequence[int]) -> bool:
    """Restore the lines that are still commented out, wherever they are now; a redacted line at its number."""
    path, rows = _read_rows(file)
    known = {MARK + _encode_line(line) for line in lines}
    back = [n for n, row in enumerate(rows, 1) if row in known or (n in numbers and row.startswith(MARK))]
    for n in back:
        rows[n - 1] = rows[n - 1].removeprefix(MARK)
    if back:
        _write_rows(path, rows)
    return bool(back)


def _encode_line(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


def _read_rows(file: str) -> tuple[Path, list[bytes]]:
    """Return the file that a link points to, and its lines."""
    path = Path(file).resolve()
    return path, path.read_bytes().split(b"\n")


def _write_rows(path: Path, rows: Sequence[bytes]) -> None:
    """Replace the file atomically; the new file is never readable by more users than the old one."""
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

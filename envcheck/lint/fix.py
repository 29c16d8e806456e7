"""`--fix`: a corrected copy beside the file, and what differs; the file itself is never touched."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.lint.model import Source
from envcheck.lint.lint import Result


def corrected(result: Result) -> tuple[bytes, int]:
    """The file with the safe fixes, and how many remarks that mends; one that meets another's stretch is left."""
    edits: list[tuple[int, int, str]] = []
    mended = 0
    for remark in result.remarks:
        if remark.fix is None:
            continue
        mine = [edit for edit in remark.fix.edits if edit not in edits]
        if not any(_meet(edit, other) for edit in mine for other in edits):
            edits += mine
            mended += 1
    raw = result.source.raw
    for start, end, text in sorted(edits, reverse=True):
        raw = raw[:start] + text.encode() + raw[end:]
    return raw, mended


def _meet(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def target(name: str) -> Path:
    """run.sh → run.fixed.sh."""
    path = Path(name)
    return path.with_name(f"{path.stem}.fixed{path.suffix}")


def diff(source: Source, raw: bytes, there: Path) -> str:
    before, after = source.raw.decode("utf-8"), raw.decode("utf-8")
    if before.count("\r\n") > after.count("\r\n"):  # each line differs: the ends are told by the rule
        before = before.replace("\r\n", "\n")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), source.name, str(there), lineterm="", n=1)
    return "".join(f"{line}\n" for line in lines)


def write(name: str, raw: bytes) -> Path:
    """UsageError where something of that name is there, or nothing can be written."""
    there = target(name)
    try:
        with there.open("xb") as file:
            os.fchmod(file.fileno(), Path(name).stat().st_mode & 0o777)
            file.write(raw)
    except FileExistsError:
        words = f"{there} is there, and is not replaced"
        raise UsageError(words, "move it away, then run it again") from None
    except OSError as err:
        words = f"{there}: cannot be written: {(err.strerror or str(err)).lower()}"
        raise UsageError(words, "lint a copy in a folder of your own") from None
    return there

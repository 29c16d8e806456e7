"""`--write-fixed`: write a corrected copy next to the file, and show the differences; the file itself is unchanged."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.lint.script_model import SourceFile
from envcheck.core.messages import _
from envcheck.lint.linter import LintResult


def apply_fixes(result: LintResult) -> tuple[bytes, int]:
    """Return the text with the safe fixes, and how many remarks they resolve; overlapping fixes are skipped."""
    edits: list[tuple[int, int, str]] = []
    mended = 0
    for remark in result.remarks:
        if remark.fix is None:
            continue
        mine = [edit for edit in remark.fix.edits if edit not in edits]
        if not any(_edits_overlap(edit, other) for edit in mine for other in edits):
            edits += mine
            mended += 1
    raw = result.source.raw
    for start, end, text in sorted(edits, reverse=True):
        raw = raw[:start] + text.encode() + raw[end:]
    return raw, mended


def _edits_overlap(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def make_fixed_path(name: str) -> Path:
    """Return the path of the copy: run.sh → run.fixed.sh."""
    path = Path(name)
    return path.with_name(f"{path.stem}.fixed{path.suffix}")


def render_diff(source: SourceFile, raw: bytes, there: Path) -> str:
    before, after = source.raw.decode("utf-8"), raw.decode("utf-8")
    if before.count("\r\n") > after.count("\r\n"):  # every line differs: the rule reports the line ends
        before = before.replace("\r\n", "\n")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), source.name, str(there), lineterm="", n=1)
    return "".join(f"{line}\n" for line in lines)


def write_fixed_copy(name: str, raw: bytes) -> Path:
    """Write the copy; UsageError if the path exists or cannot be written."""
    there = make_fixed_path(name)
    try:
        with there.open("xb") as file:
            os.fchmod(file.fileno(), Path(name).stat().st_mode & 0o777)
            file.write(raw)
    except FileExistsError:
        words = _("{there} already exists and was not overwritten", there=there)
        raise UsageError(words, _("move it away and run the command again")) from None
    except OSError as err:
        words = _("cannot write {there}: {strerror}", there=there, strerror=describe_os_error(err))
        raise UsageError(words, _("lint a copy in a directory that you can write to")) from None
    return there

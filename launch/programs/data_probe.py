"""Check that a file of training data parses: read its first lines, a sample and its last line, at most BUDGET bytes.

Also runs inside containers: Python 3.8, the standard library and envcheck.core.messages only.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from envcheck.core.messages import Message, _, ngettext, verbatim

LINE, WHOLE, BUDGET = 16 << 20, 32 << 20, 64 << 20  # limits in bytes: a line, a document that is read completely, all
HEAD, SAMPLES = 64, 16  # lines read at the beginning, and at places spread over the rest


class DataFlawError(ValueError):
    """A file with invalid data; `flaw` describes the problem."""

    def __init__(self, flaw: Message) -> None:
        super().__init__(flaw)
        self.flaw = flaw


def probe_file(path: Path) -> dict[str, Message]:
    """Return {"seen": ...} for valid data, {"flaw": ...} or {"error": ...} for a problem, {} if the type is unknown."""
    read = READERS.get(path.suffix.lower())
    if read is None or path.is_dir():
        return {}
    try:
        handle = os.open(str(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not block on a pipe
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return {"flaw": _("not a regular file")}
            return {"seen": read(file, found.st_size)} if found.st_size else {}
    except DataFlawError as err:
        return {"flaw": err.flaw}
    except OSError as err:
        return {"error": verbatim((err.strerror or str(err)).lower())}


def check_json_lines(file: BinaryIO, size: int) -> Message:
    """Check JSON lines: one object per line."""
    left, number, kept = BUDGET, 0, 0
    file.seek(0)
    while number < HEAD and left > 0:
        place = _("line {number}", number=number + 1)
        line = _read_line(file, place)
        if not line:
            break
        number, left, kept = number + 1, left - len(line), kept + _count_object(line, place)
    at, spots = file.tell(), 0
    for spot in range(SAMPLES) if at < size else ():
        file.seek(at + (size - at) * spot // SAMPLES)
        file.readline(LINE + 1)  # skip the rest of the current line
        place = _("the line at byte {offset}", offset=file.tell())
        line = _read_line(file, place) if left > 0 else b""
        left, spots = left - len(line), spots + (_count_object(line, place) if line else 0)
    kept += spots + (_count_object(_read_last_line(file, size), _("the last line")) if at < size else 0)
    if not kept:
        raise DataFlawError(_("contains only blank lines"))
    if at < size:
        return ngettext("JSON lines, {count} line checked", "JSON lines, {count} lines checked", kept)
    return ngettext("JSON lines, {count} line", "JSON lines, {count} lines", kept)


def _read_line(file: BinaryIO, place: Message) -> bytes:
    line = file.readline(LINE + 1)
    if len(line) > LINE:
        raise DataFlawError(_("{place} is longer than {limit} MiB", place=place, limit=LINE >> 20))
    return line


def _read_last_line(file: BinaryIO, size: int) -> bytes:
    """Return the last line of the file's last MiB that is not blank."""
    file.seek(max(0, size - (1 << 20)))
    found = file.read(1 << 20).rstrip().splitlines()
    return found[-1] if len(found) > 1 else b""


def _count_object(line: bytes, place: Message) -> int:
    """Return 1 for an object, 0 for a blank line."""
    if not line.strip():
        return 0
    said = _parse_json(line, place)
    if not isinstance(said, dict):
        raise DataFlawError(_("{place} is not a JSON object", place=place))
    return 1


def _parse_json(raw: bytes, place: Message) -> object:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as err:
        raise DataFlawError(_("{place} is not valid UTF-8 at byte {offset}", place=place, offset=err.start)) from None
    except json.JSONDecodeError as err:
        raise DataFlawError(_describe_json_error(err, place, b"\n" in raw.strip())) from None
    except RecursionError:
        raise DataFlawError(_("{place} is nested too deeply", place=place)) from None


def _describe_json_error(err: json.JSONDecodeError, place: Message, has_lines: bool) -> Message:
    if has_lines:
        return _(
            "{place} is not valid JSON at line {line}, column {column} ({reason})",
            place=place,
            line=err.lineno,
            column=err.colno,
            reason=err.msg.lower(),
        )
    return _(
        "{place} is not valid JSON at column {column} ({reason})", place=place, column=err.colno, reason=err.msg.lower()
    )


def check_json_document(file: BinaryIO, size: int) -> Message:
    """Check one JSON document of records, or JSON lines, which data set loaders accept under the same suffix."""
    if size > WHOLE:
        return _check_large_json(file, size)
    raw = file.read(WHOLE + 1)
    try:
        said = _parse_json(raw, _("the document"))
    except DataFlawError:
        first = raw.lstrip().split(b"\n", 1)[0].rstrip()
        if not (first.startswith(b"{") and first.endswith(b"}")):
            raise
        return check_json_lines(file, size)
    if not isinstance(said, (list, dict)) or not said:
        raise DataFlawError(_("contains no records"))
    if isinstance(said, list) and not all(isinstance(record, dict) for record in said):
        raise DataFlawError(_("contains list items that are not objects"))
    if isinstance(said, list):
        return ngettext("JSON, {count} record", "JSON, {count} records", len(said))
    return _("JSON, an object")


def _check_large_json(file: BinaryIO, size: int) -> Message:
    """Check a file that is too large to read completely: both ends of a list, or JSON lines."""
    first = file.read(4096).lstrip()[:1]
    if first == b"{":
        return check_json_lines(file, size)
    file.seek(size - 4096)
    last = file.read(4096).rstrip()[-1:]
    if (first, last) != (b"[", b"]"):
        raise DataFlawError(
            _("not a list of records: begins with {first}, ends with {last}", first=repr(first), last=repr(last))
        )
    return _("JSON list, only the ends checked because of its size")


def check_parquet(file: BinaryIO, size: int) -> Message:
    """Check PAR1 at both ends and the footer length (Parquet file format)."""
    first = file.read(4)
    if first == b"PARE" or size < 12 or first != b"PAR1":
        raise DataFlawError(
            _("encrypted Parquet footers are not supported")
            if first == b"PARE"
            else _("not a Parquet file: PAR1 is missing at the beginning")
        )
    file.seek(size - 8)
    length, last = int.from_bytes(file.read(4), "little"), file.read(4)
    if last != b"PAR1":
        raise DataFlawError(_("truncated: PAR1 is missing at the end"))
    if not 0 < length <= size - 12:
        raise DataFlawError(_("the Parquet footer has {length} bytes, the file only {size}", length=length, size=size))
    return _("Parquet, markers and footer valid")


def check_text(file: BinaryIO, size: int) -> Message:
    """Check that the first MiB is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(file.read(1 << 20))
    except UnicodeDecodeError as err:
        raise DataFlawError(_("not valid UTF-8 at byte {offset}", offset=err.start)) from None
    return _("UTF-8 text") if size <= 1 << 20 else _("UTF-8 text, first MiB checked")


READERS: dict[str, Callable[[BinaryIO, int], Message]] = {
    ".jsonl": check_json_lines,
    ".json": check_json_document,
    ".parquet": check_parquet,
    ".txt": check_text,
}


def resolve_set_files(registry: Path, names: list[str]) -> dict[str, str]:
    """Map data set names to files by LLaMA-Factory's dataset_info.json: "hub" for a download, "" for an unknown name.

    Returns {} if the registry cannot be read."""
    try:
        with registry.open("rb") as file:
            said = json.loads(file.read(WHOLE).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    found = {}
    for name in names:
        entry = said.get(name) if isinstance(said, dict) else None
        local = entry.get("file_name") if isinstance(entry, dict) else None
        found[name] = str(registry.parent / local) if isinstance(local, str) else "hub" if entry is not None else ""
    return found

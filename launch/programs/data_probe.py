"""Does a file of training data parse?  Its first and last lines and a sample are read, never more than BUDGET bytes.

Runs in containers too: Python 3.8 and its standard library.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

LINE, WHOLE, BUDGET = 16 << 20, 32 << 20, 64 << 20  # bytes: of one line, of a document that is read whole, of all
HEAD, SAMPLES = 64, 16  # lines from the beginning, and from places spread over the rest


class DataFlawError(ValueError):
    """What is wrong with the file."""


def look(path: Path) -> dict[str, str]:
    """{"seen": ...} where what was read is right, {"flaw": ...} where it is not, {} where nobody could tell."""
    read = READERS.get(path.suffix.lower())
    if read is None or path.is_dir():
        return {}
    try:
        handle = os.open(str(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place must not hang us
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return {"flaw": "is no plain file"}
            return {"seen": read(file, found.st_size)} if found.st_size else {}
    except DataFlawError as err:
        return {"flaw": str(err)}
    except OSError as err:
        return {"error": (err.strerror or str(err)).lower()}


def lines(file: BinaryIO, size: int) -> str:
    """JSON lines: one object in each."""
    left, number, kept = BUDGET, 0, 0
    file.seek(0)
    while number < HEAD and left > 0:
        line = _line(file, f"line {number + 1}")
        if not line:
            break
        number, left, kept = number + 1, left - len(line), kept + _object(line, f"line {number + 1}")
    at, spots = file.tell(), 0
    for spot in range(SAMPLES) if at < size else ():
        file.seek(at + (size - at) * spot // SAMPLES)
        file.readline(LINE + 1)  # to the end of a line that began before
        place = f"the line at byte {file.tell()}"
        line = _line(file, place) if left > 0 else b""
        left, spots = left - len(line), spots + (_object(line, place) if line else 0)
    kept += spots + (_object(_last(file, size), "the last line") if at < size else 0)
    if not kept:
        raise DataFlawError("holds blank lines alone")
    return f"JSON lines, {kept} of them read" if at < size else f"JSON lines, {kept} in all"


def _line(file: BinaryIO, place: str) -> bytes:
    line = file.readline(LINE + 1)
    if len(line) > LINE:
        raise DataFlawError(f"{place} has more than {LINE >> 20} MiB")
    return line


def _last(file: BinaryIO, size: int) -> bytes:
    """The last line that is not blank, of the file's last megabyte."""
    file.seek(max(0, size - (1 << 20)))
    found = file.read(1 << 20).rstrip().splitlines()
    return found[-1] if len(found) > 1 else b""


def _object(line: bytes, place: str) -> int:
    """1 for an object, 0 for a blank line."""
    if not line.strip():
        return 0
    said = _parsed(line, place)
    if not isinstance(said, dict):
        raise DataFlawError(f"{place} is JSON, but no object")
    return 1


def _parsed(raw: bytes, place: str) -> object:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as err:
        raise DataFlawError(f"{place} is no UTF-8, at its byte {err.start}") from None
    except json.JSONDecodeError as err:
        where = f"its line {err.lineno}, " if b"\n" in raw.strip() else ""
        raise DataFlawError(f"{place} is no JSON at {where}column {err.colno} ({err.msg.lower()})") from None
    except RecursionError:
        raise DataFlawError(f"{place} is nested beyond all bounds") from None


def document(file: BinaryIO, size: int) -> str:
    """One JSON document of records; datasets' loaders take JSON lines under this name as well."""
    if size > WHOLE:
        return _large(file, size)
    raw = file.read(WHOLE + 1)
    try:
        said = _parsed(raw, "it")
    except DataFlawError:
        first = raw.lstrip().split(b"\n", 1)[0].rstrip()
        if not (first.startswith(b"{") and first.endswith(b"}")):
            raise
        return lines(file, size)
    if not isinstance(said, (list, dict)) or not said:
        raise DataFlawError("holds no records")
    if isinstance(said, list) and not all(isinstance(record, dict) for record in said):
        raise DataFlawError("is a list of something else than records")
    return f"JSON, {len(said)} records" if isinstance(said, list) else "JSON, an object"


def _large(file: BinaryIO, size: int) -> str:
    """Too large to be read whole: a list's ends, or lines."""
    first = file.read(4096).lstrip()[:1]
    if first == b"{":
        return lines(file, size)
    file.seek(size - 4096)
    last = file.read(4096).rstrip()[-1:]
    if (first, last) != (b"[", b"]"):
        raise DataFlawError(f"does not begin and end as a list of records: {first!r}, {last!r}")
    return "a JSON list by its two ends, too large to be read whole"


def parquet(file: BinaryIO, size: int) -> str:
    """PAR1 at both ends, and a footer that lies within (Parquet's own format description)."""
    first = file.read(4)
    if first == b"PARE" or size < 12 or first != b"PAR1":
        raise DataFlawError(
            "has an encrypted footer" if first == b"PARE" else "is no Parquet file: it lacks PAR1 in front"
        )
    file.seek(size - 8)
    length, last = int.from_bytes(file.read(4), "little"), file.read(4)
    if last != b"PAR1":
        raise DataFlawError("is cut off: Parquet's mark is missing at its end")
    if not 0 < length <= size - 12:
        raise DataFlawError(f"has a Parquet footer of {length} bytes in a file of {size}")
    return "Parquet, both marks and the footer in place"


def text(file: BinaryIO, size: int) -> str:
    """UTF-8, as far as its first and last megabyte tell."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(file.read(1 << 20))
    except UnicodeDecodeError as err:
        raise DataFlawError(f"is no UTF-8, at byte {err.start}") from None
    return "UTF-8 text" if size <= 1 << 20 else "UTF-8 text by its first megabyte"


READERS: dict[str, Callable[[BinaryIO, int], str]] = {
    ".jsonl": lines,
    ".json": document,
    ".parquet": parquet,
    ".txt": text,
}


def named(registry: Path, names: list[str]) -> dict[str, str]:
    """Of LLaMA-Factory's dataset_info.json, for each name of a set: its file as seen from there, "hub" for one that is
    fetched, "" for one that it does not know; nothing where the file cannot be read."""
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

"""The bytes of logs, whatever they are: files of any size, compressed, in UTF-16, folders of ranks' logs."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import click

from envcheck.core.errors import UsageError
from envcheck.core.language import say

CHUNK = 1 << 17  # bytes read at a time: what is made of them stays in a processor's cache
LINE = 1 << 16  # bytes after which a line without an end is taken in pieces
FILES = 4096  # of one folder; the largest published job has 160 ranks
DEPTH = 4
OURS = "envcheck.log"  # what envcheck itself said beside a detached run: it repeats the others
_GZ, _WIDE = b"\x1f\x8b", {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_NAMES = re.compile(r"\.(?:log|txt|out|err|stdout|stderr|gz)(?:\.\d{1,5})?$|log|^(?:stdout|stderr|nohup\.out)", re.I)
# What paddle's launcher puts beside the logs: the whole environment, secrets included, and no error of any run.
_OTHERS = re.compile(r"^(?:envlog|backup_env)\.|\.gpu\.log$|\.(?:json|jsonl|ya?ml|py|sh|md|svg|png)$", re.I)


def files(path: Path) -> tuple[Path, ...]:
    """The logs of a folder, ranks in the order of their numbers; a file is itself."""
    if not path.is_dir():
        return (path,)
    found = sorted(_below(path, DEPTH), key=lambda p: _natural(str(p.relative_to(path))))[:FILES]
    found = [file for file in found if file.name != OURS] or found
    if not found:
        raise UsageError(f"{path}: no log in this folder", "name the file, or the folder that holds workerlog.N")
    return tuple(found)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return
    for path in inside:
        if path.is_symlink():
            continue
        if path.is_dir() and depth > 1:
            yield from _below(path, depth - 1)
        elif path.is_file() and _NAMES.search(path.name) and not _OTHERS.search(path.name):
            yield path


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d{1,9}|\D+", text)]


def blocks(path: Path, start: int = 0) -> Iterator[bytes]:
    """Whole lines, about CHUNK bytes at a time; `-` is standard input.  UsageError when it cannot be read.

    From `start`, a number of CHUNKs of a plain file, they are the blocks that come there from its beginning, too.
    """
    try:
        if str(path) == "-":
            yield from whole(_decoded(sys.stdin.buffer, "-"))
            return
        with path.open("rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not file.isatty() and str(path) != os.devnull):
                raise UsageError(f"{path} is a device, not a log", "name a file, a folder, or - for standard input")
            yield from _from(file, start) if start else whole(_decoded(file, str(path)))
    except (OSError, ValueError) as err:  # ValueError: a NUL in the name
        why = (getattr(err, "strerror", None) or str(err)).lower()
        raise UsageError(
            f"cannot read {path}: {why}", "name a file that you may read, or - for standard input"
        ) from None


def size(path: Path) -> int:
    """Bytes of a regular file, which another process may read; 0 of all else, and where that cannot be told."""
    try:
        said = path.stat()
    except (OSError, ValueError):
        return 0
    return said.st_size if str(path) != "-" and stat.S_ISREG(said.st_mode) else 0


def is_plain(path: Path) -> bool:
    """Neither compressed nor in UTF-16, as far as can be read: then it can be read from the middle."""
    try:
        with path.open("rb") as file:
            first = file.read(2)
    except OSError:
        return False
    return first != _GZ and first not in _WIDE


def _from(file: IO[bytes], start: int) -> Iterator[bytes]:
    file.seek(start - CHUNK)
    before = file.read(CHUNK)
    if len(before) == CHUNK:  # else it was cut off meanwhile
        yield from whole(_parts(file.read(CHUNK), file), _cut(before)[1])


def _decoded(file: IO[bytes], name: str) -> Iterator[bytes]:
    first = file.read(CHUNK)
    if first[:2] == _GZ:
        yield from _unzipped(first, file, name)
    elif code := _WIDE.get(first[:2]):
        decoder = codecs.getincrementaldecoder(code)("replace")
        yield from (decoder.decode(part).encode("utf-8", "replace") for part in _parts(first[2:], file))
    else:
        yield from _parts(first, file)


def _parts(first: bytes, file: IO[bytes]) -> Iterator[bytes]:
    while first:
        yield first
        first = file.read(CHUNK)


def _unzipped(first: bytes, file: IO[bytes], name: str) -> Iterator[bytes]:
    """A file that was cut off, or is damaged, is read as far as it goes, which is said."""
    with gzip.GzipFile(fileobj=_Joined(first, file)) as packed:  # type: ignore[call-overload]
        while True:
            try:
                part = packed.read1(CHUNK)
            except (EOFError, OSError, zlib.error):
                said = say(f"{name} is cut off, or damaged: what follows in it was not read")
                click.echo(f"envcheck{say(': ')}{said}", err=True)
                return
            if not part:
                return
            yield part


class _Joined:
    """What was read to look at it, and the rest: standard input cannot be wound back."""

    def __init__(self, first: bytes, file: IO[bytes]) -> None:
        self._first, self._file = first, file

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            return self._file.read(size)
        size = len(self._first) if size < 0 else size
        part, self._first = self._first[:size], self._first[size:]
        return part


def whole(parts: Iterable[bytes], rest: bytes = b"") -> Iterator[bytes]:
    """Cut at ends of lines, a block for each part that is as long as LINE; `rest` is what came before the parts."""
    for part in parts:
        block, rest = _cut(rest + part)
        if block:
            yield block
    if rest:
        yield rest


def _cut(block: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of the next one.  A line that is longer than LINE is cut as it comes, without an
    end of line."""
    cut = block.rfind(b"\n") + 1
    return (block, b"") if len(block) - cut >= LINE else (block[:cut], block[cut:])


def gathered(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines as blocks."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size > CHUNK:
            yield from whole([b"".join(block)])
            block, size = [], 0
    yield from whole([b"".join(block)])

"""Read logs of any kind: of any size, compressed, in UTF-16, folders of rank logs."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import click

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.inputs.live_stream import LiveStream, open_file
from envcheck.core.language import translate
from envcheck.core.local_files import is_folder
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.explain.files.reading_notice import announce_search, tell
from probes.encoding import LOOKED_AT, describe_binary, detect_wide

Stream = IO[bytes] | LiveStream
CHUNK = 1 << 17  # bytes read at a time: the results stay in the processor's cache
LINE = 1 << 16  # bytes after which a line without an end is cut
FILES = 4096  # logs of one folder; the largest published job has 160 ranks
FOLDERS = 20_000  # searched for them
DEPTH = 8  # torchrun: folder of the job, its run, attempt_0, the rank; a folder for each node above
NAMED = 3  # files of a folder that are named among those that are no logs
OURS = "envcheck.log"  # envcheck's own output of a detached run: it repeats the others
_GZ, _WIDE = b"\x1f\x8b", {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_NAMES = re.compile(
    r"\.(?:log|txt|out|err|stdout|stderr|gz)(?:\.\d{1,5})?$|log|^(?:stdout|stderr|nohup\.out)"
    r"|^(?:(?:out|err|output|rank|task|proc|node|worker)[\w.-]{0,40}?[._-]?)?\d{1,5}$",  # srun -o %t, out.%t
    re.IGNORECASE,
)
# Written by paddle's launcher next to the logs: the whole environment, secrets included, but no errors.
_OTHERS = re.compile(r"^(?:envlog|backup_env)\.|\.gpu\.log$|\.(?:json|jsonl|ya?ml|py|sh|md|svg|png)$", re.I)


def list_log_files(path: Path) -> tuple[Path, ...]:
    """Return the logs in a folder, ordered by rank; a file is returned as it is."""
    if not is_folder(str(path)):
        return (path,)
    if not os.access(path, os.R_OK | os.X_OK):
        raise _refuse_unreadable(path, _("permission denied"))
    found = sorted(_search_folder(path), key=lambda p: _make_sort_key(str(p.relative_to(path))))
    found = [file for file in found if file.name != OURS] or found
    if not found:
        raise UsageError(
            _("{path}: no log in this directory", path=path),
            _("specify a file, or the directory that contains workerlog.N"),
        )
    return tuple(found)


def list_readable_logs(path: Path) -> tuple[Path, ...]:
    """Return the logs in a folder without those that are not text or cannot be read, with one notice for these.

    UsageError if none is left; a file that was named is returned as it is.
    """
    found = list_log_files(path)
    if found == (path,):
        return found
    refused = {file: error for file in found if (error := _find_refusal(file)) is not None}
    if len(refused) == len(found):
        raise refused[found[0]]
    if refused:
        tell(_describe_refused(tuple(refused.values())))
    return tuple(file for file in found if file not in refused)


def _describe_refused(errors: Sequence[UsageError]) -> Message:
    """Return why files were skipped: each reason of a few, of more the first ones and their number."""
    reasons = join("; ", [error.message for error in errors[:NAMED]])
    if len(errors) <= NAMED:
        return _("skipped: {reason}", reason=reasons)
    rest = len(errors) - NAMED
    return ngettext(
        "skipped: {reasons}; and {count} other file",
        "skipped: {reasons}; and {count} other files",
        rest,
        reasons=reasons,
    )


def _find_refusal(path: Path) -> UsageError | None:
    """Return why a regular file is not read as a log, or None."""
    try:
        with path.open("rb") as file:
            return _refuse_binary(file.read(LOOKED_AT), str(path))
    except OSError as err:
        return _refuse_unreadable(path, describe_os_error(err))


def _refuse_binary(first: bytes, name: str) -> UsageError | None:
    """Return the error for a file that does not begin like text or compressed text, or None."""
    if first[:2] in (_GZ, *_WIDE) or detect_wide(first) or not (kind := describe_binary(first)):
        return None
    return UsageError(
        _("{name} is not a log: {kind}", name=name, kind=kind),
        _("specify a text file; decompress it first if it is compressed"),
    )


def _search_folder(path: Path) -> list[Path]:
    """Return the logs below a folder, up to FILES of them in up to FOLDERS folders, with a notice if there are more."""
    found: list[Path] = []
    for number, logs in enumerate(announce_search(path, _walk_folder(path, DEPTH))):
        found += logs
        if len(found) > FILES or number == FOLDERS:
            found = found[:FILES]
            tell(_("{path}: too many files; only the first {count} logs are read", path=path, count=len(found)))
            break
    return found


def _walk_folder(folder: Path, depth: int) -> Iterator[list[Path]]:
    """Yield the logs of the folder and of those below it, one folder at a time, in the order of their ranks."""
    if not os.access(folder, os.X_OK):
        return
    try:
        inside = sorted(folder.iterdir(), key=lambda path: _make_sort_key(path.name))
    except OSError:
        return
    inside = [path for path in inside if not path.is_symlink()]
    yield [path for path in inside if _is_log_name(path.name) and path.is_file()]
    for path in inside if depth > 1 else ():
        if path.is_dir():
            yield from _walk_folder(path, depth - 1)


def _is_log_name(name: str) -> bool:
    return bool(_NAMES.search(name)) and not _OTHERS.search(name)


def _make_sort_key(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d{1,9}|\D+", text)]


def read_blocks(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yield whole lines, about CHUNK bytes at a time; `-` is standard input.  UsageError if it cannot be read.

    From `start`, a number of CHUNKs of a plain file, the blocks are the same as when it is read from its beginning.
    """
    try:
        if str(path) == "-":
            yield from cut_at_line_ends(_decode_stream(_open_standard_input(), "-"))
            return
        with open_file(path) as file:
            kind = os.fstat(file.fileno()).st_mode
            if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not os.isatty(file.fileno()) and str(path) != os.devnull):
                raise UsageError(
                    _("{path} is a device, not a log", path=path),
                    _("specify a file, a directory, or - for standard input"),
                )
            if start and not isinstance(file, LiveStream):
                yield from _read_from(file, start)
            else:
                yield from cut_at_line_ends(_decode_stream(file, str(path)))
    except (OSError, ValueError) as err:  # ValueError: a NUL byte in the name
        why = (getattr(err, "strerror", None) or str(err)).lower()
        raise _refuse_unreadable(path, why) from None


def _refuse_unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        _("cannot read {path}: {why}", path=path, why=why),
        _("specify a file that you can read, or - for standard input"),
    )


def _open_standard_input() -> Stream:
    """Standard input, with a deadline if it is a pipe."""
    try:
        descriptor = sys.stdin.buffer.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode) or stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except (OSError, ValueError, AttributeError):  # replaced by a program
        return sys.stdin.buffer
    return LiveStream(descriptor, "-") if is_pipe else sys.stdin.buffer


def measure_size(path: Path) -> int:
    """Return the bytes of a regular file that another process can read; 0 for anything else."""
    try:
        said = path.stat()
    except (OSError, ValueError):
        return 0
    return said.st_size if str(path) != "-" and stat.S_ISREG(said.st_mode) else 0


def is_plain(path: Path) -> bool:
    """Return whether the file is neither compressed nor in UTF-16: then it can be read from the middle."""
    try:
        with path.open("rb") as file:
            first = file.read(LOOKED_AT)
    except OSError:
        return False
    return first[:2] != _GZ and first[:2] not in _WIDE and detect_wide(first) is None


def _read_from(file: IO[bytes], start: int) -> Iterator[bytes]:
    file.seek(start - CHUNK)
    before = file.read(CHUNK)
    if len(before) == CHUNK:  # otherwise it was truncated meanwhile
        yield from cut_at_line_ends(_read_chunks(file.read(CHUNK), file), _cut_after_last_line(before)[1])


def _decode_stream(file: Stream, name: str) -> Iterator[bytes]:
    first = file.read(CHUNK)
    if first[:2] == _GZ:
        yield from _decompress_stream(first, file, name)
    elif code := _WIDE.get(first[:2], detect_wide(first)):
        decoder = codecs.getincrementaldecoder(code)("replace")
        start = first[2:] if first[:2] in _WIDE else first
        yield from (decoder.decode(part).encode("utf-8", "replace") for part in _read_chunks(start, file))
    elif refusal := _refuse_binary(first, name):
        raise refusal
    else:
        yield from _read_chunks(first, file)


def _read_chunks(first: bytes, file: Stream) -> Iterator[bytes]:
    while first:
        yield first
        first = file.read(CHUNK)


def _decompress_stream(first: bytes, file: Stream, name: str) -> Iterator[bytes]:
    """Read a truncated or damaged file as far as possible, with a notice."""
    with gzip.GzipFile(fileobj=_PrefixedStream(first, file)) as packed:  # type: ignore[call-overload]
        while True:
            try:
                part = packed.read1(CHUNK)
            except (EOFError, OSError, zlib.error):
                said = _("{name} is truncated or damaged: the rest of the file was not read", name=name)
                click.echo(translate(_("envcheck: {message}", message=said)), err=True)
                return
            if not part:
                return
            yield part


class _PrefixedStream:
    """The bytes that were read for detection, then the rest: standard input cannot be rewound."""

    def __init__(self, first: bytes, file: Stream) -> None:
        self._first, self._file = first, file

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            return self._file.read(size if size >= 0 else 1 << 30)
        size = len(self._first) if size < 0 else size
        part, self._first = self._first[:size], self._first[size:]
        return part


def cut_at_line_ends(parts: Iterable[bytes], rest: bytes = b"") -> Iterator[bytes]:
    """Yield blocks that end at line ends, each about LINE long; `rest` is the text before the parts."""
    for part in parts:
        block, rest = _cut_after_last_line(rest + part)
        if block:
            yield block
    if rest:
        yield rest


def _cut_after_last_line(block: bytes) -> tuple[bytes, bytes]:
    """Return whole lines, and the start of the next one.  A line longer than LINE is cut without a line end."""
    cut = block.rfind(b"\n") + 1
    return (block, b"") if len(block) - cut >= LINE else (block[:cut], block[cut:])


def join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines as blocks."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size > CHUNK:
            yield from cut_at_line_ends([b"".join(block)])
            block, size = [], 0
    yield from cut_at_line_ends([b"".join(block)])

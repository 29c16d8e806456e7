"""Logs read side by side by several processes, each a piece at a time; the answer is that of one process."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.explain import prefilter, reading, workers
from envcheck.explain.found import Found, joined
from envcheck.explain.index import Index
from envcheck.explain.scan import Scan
from envcheck.report import screen

WORTH = 32 << 20  # bytes: what is less is read by one process before others would have begun
MOST = 4  # processes: each holds up to 28 MiB of its own beside 40 that are shared; the goal is 200 MB
PIECE = 16 << 20  # bytes, at least: each begins with nothing remembered
EACH = 16  # pieces for each process, so that all end at about the same time


@dataclass(frozen=True)
class Piece:
    """Of a log: from a number of bytes on, so many chunks, or to its end."""

    path: Path
    start: int = 0
    chunks: int | None = None


@dataclass(frozen=True)
class _Answer:
    """`said` is what is to be told meanwhile."""

    found: Found | UsageError
    said: str


def read(paths: Sequence[Path], index: Index) -> list[Found]:
    """What each log says.  UsageError for the first that cannot be read."""
    total = sum(map(reading.size, paths))
    processes = min(MOST, workers.cores()) if total > WORTH else 1
    if processes == 1:
        return [scanned(Piece(path), index) for path in paths]
    logs = [tuple(pieces(path, max(PIECE, total // processes // EACH))) for path in paths]
    answers = _answers([piece for log in logs for piece in log if reading.size(piece.path)], index, processes)
    return [_log(log, answers, index) for log in logs]


def pieces(path: Path, most: int) -> Iterator[Piece]:
    """Of about `most` bytes, where the log can be read from the middle."""
    size, chunks = reading.size(path), most // reading.CHUNK
    starts = range(0, size, chunks * reading.CHUNK) if size > most and reading.is_plain(path) else range(1)
    for start in starts:
        yield Piece(path, start, None if start == starts[-1] else chunks)


def scanned(piece: Piece, index: Index) -> Found:
    """What it says; an exception that begins in it is read to its end."""
    one = Scan("standard input" if str(piece.path) == "-" else str(piece.path), index)
    blocks = reading.blocks(piece.path, piece.start)
    for block in islice(blocks, piece.chunks):
        one.feed(block)
    found = one.end(blocks)
    return found if piece.start or piece.chunks else found.finished()


def _answers(some: Sequence[Piece], index: Index, processes: int) -> Mapping[Piece, _Answer]:
    list(index.possible([b"error"]))  # what is made when it is first asked for is made once for all
    prefilter.select_lines([b"error"])
    with screen.progress("reading", len(some), ticking=False) as ended:
        found = workers.shared(lambda at: _answer(some[at], index), len(some), processes, ended)
    return {some[at]: answer for at, answer in found.items()}


def _answer(piece: Piece, index: Index) -> _Answer:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            found: Found | UsageError = scanned(piece, index)
        except UsageError as err:
            found = err
    return _Answer(found, said.getvalue())


def _log(log: Sequence[Piece], answers: Mapping[Piece, _Answer], index: Index) -> Found:
    """What no other process could read is read here."""
    found = [_told(answers[piece]) if piece in answers else scanned(piece, index) for piece in log]
    return found[0] if len(found) == 1 else joined(found).finished()


def _told(answer: _Answer) -> Found:
    sys.stderr.write(answer.said)
    if isinstance(answer.found, UsageError):
        raise answer.found
    return answer.found

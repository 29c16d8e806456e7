"""Read logs with several processes, one part at a time; the result equals that of one process."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from envcheck.core import workers
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.explain import log_files, prefilter
from envcheck.explain.files.reading_notice import announce_logs, announce_reading, count_parts
from envcheck.explain.index import EntryIndex
from envcheck.explain.log_findings import LogFindings, join_pieces
from envcheck.explain.scan import LogScanner
from envcheck.report import screen

Announce = Callable[[str, Iterable[bytes]], Iterator[bytes]]  # passes blocks on, and tells that they take long
WORTH = 32 << 20  # bytes: one process reads less than this before others would have started
MOST = 4  # processes: each uses up to 28 MiB in addition to 40 MiB shared; the goal is 200 MB
PIECE = 16 << 20  # minimum bytes: each part starts without any state
EACH = 16  # pieces for each process, so that all end at about the same time


@dataclass(frozen=True)
class LogPiece:
    """A part of a log: from a byte offset on, this many chunks, or to its end."""

    path: Path
    start: int = 0
    chunks: int | None = None


@dataclass(frozen=True)
class _PieceResult:
    """The findings of a part, or the error, and what was printed on standard error meanwhile."""

    found: LogFindings | UsageError
    notices: str


def scan_logs(paths: Sequence[Path], index: EntryIndex) -> list[LogFindings]:
    """Return the findings of each log.  UsageError for the first that cannot be read."""
    total = sum(map(log_files.measure_size, paths))
    processes = min(MOST, workers.count_usable_cores()) if total > WORTH else 1
    if processes == 1:
        return [scan_piece(LogPiece(path), index, announce_reading) for path in announce_logs(paths)]
    logs = [tuple(cut_into_pieces(path, max(PIECE, total // processes // EACH))) for path in paths]
    answers = _scan_pieces(
        [piece for log in logs for piece in log if log_files.measure_size(piece.path)], index, processes
    )
    return [_join_log(log, answers, index) for log in logs]


def cut_into_pieces(path: Path, most: int) -> Iterator[LogPiece]:
    """Return parts of about `most` bytes, if the log can be read from the middle."""
    size, chunks = log_files.measure_size(path), most // log_files.CHUNK
    starts = range(0, size, chunks * log_files.CHUNK) if size > most and log_files.is_plain(path) else range(1)
    for start in starts:
        yield LogPiece(path, start, None if start == starts[-1] else chunks)


def scan_piece(piece: LogPiece, index: EntryIndex, announce: Announce | None = None) -> LogFindings:
    """Return the findings of a part; an exception that begins in it is read to its end."""
    one = LogScanner(_("standard input") if str(piece.path) == "-" else str(piece.path), index)
    blocks = log_files.read_blocks(piece.path, piece.start)
    for block in islice(announce(str(piece.path), blocks) if announce else blocks, piece.chunks):
        one.feed_block(block)
    found = one.finish_piece(blocks)
    return found if piece.start or piece.chunks else found.finish_log()


def _scan_pieces(some: Sequence[LogPiece], index: EntryIndex, processes: int) -> Mapping[LogPiece, _PieceResult]:
    list(index.find_possible_lines([b"error"]))  # build lazy tables once, before the fork
    prefilter.select_lines([b"error"])
    with screen.show_progress(_("reading"), len(some), ticking=False) as ended:
        told = ended if sys.stderr.isatty() else count_parts(len(some))
        found = workers.run_in_workers(lambda at: _scan_quietly(some[at], index), len(some), processes, told)
    return {some[at]: answer for at, answer in found.items()}


def _scan_quietly(piece: LogPiece, index: EntryIndex) -> _PieceResult:
    with contextlib.redirect_stderr(io.StringIO()) as notices:
        try:
            found: LogFindings | UsageError = scan_piece(piece, index)
        except UsageError as err:
            found = err
    return _PieceResult(found, notices.getvalue())


def _join_log(log: Sequence[LogPiece], answers: Mapping[LogPiece, _PieceResult], index: EntryIndex) -> LogFindings:
    """Join the parts; this process reads what others could not."""
    found = [_unwrap_result(answers[piece]) if piece in answers else scan_piece(piece, index) for piece in log]
    return found[0] if len(found) == 1 else join_pieces(found).finish_log()


def _unwrap_result(answer: _PieceResult) -> LogFindings:
    sys.stderr.write(answer.notices)
    if isinstance(answer.found, UsageError):
        raise answer.found
    return answer.found

"""From the findings of the logs to the end of each process; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.explain import timestamps
from envcheck.explain.diagnosis import CatalogueEntry, Evidence, RaisedException
from envcheck.explain.exceptions import raised_place
from envcheck.explain.exceptions.notices import has_waited, is_accident, is_notice
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.log_level import is_mild
from envcheck.explain.processes import rank_names
from envcheck.explain.processes.join_ends import (
    apply_reports,
    join_streams,
    leave_out_others,
    place_local,
    place_numbered,
)
from envcheck.explain.processes.launcher_report import ReportedEnd, are_tasks_ranks
from envcheck.explain.processes.process_end import EndKind, ProcessEnd
from envcheck.explain.processes.progress import StepLine

SIGNAL = "SIG"
_COLLECTIVE = re.compile(r"/distributed_c10d\.py:\d{1,6}, in ([a-z]\w{2,40})$|/communication/(\w{3,40})\.py:\d")


@dataclass(frozen=True)
class _KnownLine:
    entry: CatalogueEntry
    line: Evidence


def list_process_ends(scans: Sequence[LogFindings], entries: Mapping[str, CatalogueEntry]) -> tuple[ProcessEnd, ...]:
    """Return how each process ended, in the order of the logs, by its own log and by what its launcher reports."""
    reports = _select_reports(scans)
    found = [(scan, said) for scan, said in zip(scans, reports, strict=True) if scan.size and not scan.is_replaced]
    listed = join_streams([end for scan, said in found for end in _list_ends_of_log(scan, entries, said)])
    ends = place_numbered(place_local(listed))
    for scan, said in zip(scans, reports, strict=True):
        ends = apply_reports(ends, scan.name, said)
    return tuple(leave_out_others(ends, {scan.name for scan in scans if scan.reported}))


def _select_reports(scans: Sequence[LogFindings]) -> list[list[ReportedEnd]]:
    """What the launcher with each log reports of ranks."""
    printed = [one.rank for scan in scans for one in scan.raised]
    named = [rank_names.find_rank(scan.name) for scan in scans if not scan.reported]
    ranks = [rank for rank in (*printed, *named) if rank is not None]
    are_ranks = are_tasks_ranks((one for scan in scans for one in scan.reported), ranks)
    return [[one for one in scan.reported if are_ranks or not one.is_task] for scan in scans]


def find_own_exception(scan: LogFindings, rank: int | None = None, unit: str = "") -> RaisedException | None:
    """Return the last exception after which the process did not continue, and that is its own.

    One whose own line the log lacks is returned only if the log has no whole one, and one after which the program was
    to continue, or that ended a thread, only if there is no other that did not wait for that thread.
    """
    mine = [one for one in scan.raised if (one.rank == rank or rank is None) and unit in ("", one.unit)]
    after = [one for one in mine if scan.may_end_training(max(one.line, one.end)) and not is_notice(one.text)]
    if any(not one.is_cut for one in scan.raised):
        after = [one for one in after if not one.is_cut]
    in_threads = [one.line for one in after if one.in_thread]

    def rate(one: RaisedException) -> tuple[bool, int, int]:
        has_left = has_waited(one.text) and any(line < one.line for line in in_threads)
        return (not one.is_handled, 0 if has_left else 1 if one.in_thread else 2, one.line)

    last = max(after, key=rate, default=None)
    if last is None or not (last.in_handler and is_accident(last.text)):
        return last
    handled = [one for one in after if one.end < last.line and one.rank == last.rank]
    return max(handled, key=lambda one: one.line, default=last)


def list_known_lines(scan: LogFindings, entries: Mapping[str, CatalogueEntry]) -> list[_KnownLine]:
    """Return the lines of entries that may have ended the process."""
    found = [
        _KnownLine(entries[name], line)
        for name, hit in scan.hits.items()
        if not hit.mild and entries[name].kind != "warning"
        for line in [*hit.first_lines, *_read_other_hits(scan, name)]
        if scan.may_entry_end_training(entries[name], line.line) and not is_mild(line.text)
    ]
    return sorted(found, key=lambda one: one.line.line)


def _read_other_hits(scan: LogFindings, name: str) -> Iterator[Evidence]:
    """Yield the first line of each rank and the last line, if they are not among the first lines."""
    hit = scan.hits[name]
    others = dict(hit.by_rank.values())
    if hit.last_line:
        others.setdefault(hit.last, hit.last_line)
    shown = {line.line for line in hit.first_lines}
    yield from (scan.make_evidence(number, line) for number, line in sorted(others.items()) if number not in shown)


def find_entry_of(raised: RaisedException, known: Sequence[_KnownLine]) -> CatalogueEntry | None:
    """Return the entry that knows the line of the exception.

    What a launcher writes after it does not, nor a line among its frames by which it is passed on.
    """
    start = raised.text[:60]
    last = max(raised.last, raised.end, raised.line)
    near = [
        one
        for one in known
        if start in one.line.text
        or (
            raised.line <= one.line.line <= last
            and one.entry.kind != "summary"
            and not (one.entry.peer and raised.frames and one.line.line < raised.end)
        )
    ]
    exact = [one for one in near if start in one.line.text]
    return next((one.entry for one in (*exact, *near)), None)


def _list_ends_of_log(
    scan: LogFindings, entries: Mapping[str, CatalogueEntry], reports: Sequence[ReportedEnd]
) -> Iterator[ProcessEnd]:
    known = list_known_lines(scan, entries)
    units = _group_by_unit(scan, known)
    if len(units) > 1:
        are_tasks_reported = any(one.is_task for one in reports)
        for unit, mine in units.items():
            ranks = _list_ranks_of_unit(scan, unit, mine)
            task = rank_names.find_task(unit)
            own = ranks[0] if len(ranks) == 1 else task if are_tasks_reported else None
            for rank in ranks if len(ranks) > 1 else [None]:
                of_rank = [one for one in mine if rank in (None, rank_names.find_prefix_rank(one.line.text))]
                end = _make_end(scan, rank, of_rank, shared=True, unit=unit)
                end = end if end.rank is not None else replace(end, rank=own)
                yield replace(end, host=unit if task is None else end.host, unit=unit)
        return
    printed = [one.rank for one in scan.raised]
    by_rank: dict[int | None, list[_KnownLine]] = {}
    for one in known:
        by_rank.setdefault(rank_names.find_prefix_rank(one.line.text), []).append(one)
    if not rank_names.is_of_one_rank(scan.name):
        printed += [rank for rank, mine in by_rank.items() if any(one.entry.kind != "summary" for one in mine)]
    ranks = sorted({rank for rank in printed if rank is not None})
    if len({*ranks, *(one.rank for one in reports)} if ranks else ()) < 2:
        yield _make_end(scan, ranks[0] if ranks else None, known, shared=False)
        return
    for rank in ranks:
        yield _make_end(scan, rank, by_rank.get(rank, []), shared=True)


def _list_ranks_of_unit(scan: LogFindings, unit: str, known: Sequence[_KnownLine]) -> list[int]:
    """Return the ranks that lines of the pod, container or task name ahead of their text."""
    found = [rank_names.find_prefix_rank(one.line.text) for one in known]
    found += [one.rank for one in scan.raised if one.unit == unit]
    return sorted({rank for rank in found if rank is not None})


def _group_by_unit(scan: LogFindings, known: Sequence[_KnownLine]) -> dict[str, list[_KnownLine]]:
    """Return the known lines of each pod or container that its tool put before the lines; empty without any.

    Each has several lines: a row of a table begins in the same way, but with another name each.
    """
    units: dict[str, list[_KnownLine]] = {one.unit: [] for one in scan.raised if one.unit}
    lines = {line.line: line.text for line in (*scan.tail, *scan.odd, *(one.line for one in known))}
    counts = Counter(map(rank_names.find_prefix_unit, lines.values()))
    for one in known:
        unit = rank_names.find_prefix_unit(one.line.text)
        if unit and counts[unit] > 1:
            units.setdefault(unit, []).append(one)
    return units


def _make_end(
    scan: LogFindings, rank: int | None, known: Sequence[_KnownLine], shared: bool, unit: str = ""
) -> ProcessEnd:
    peers = rank_names.read_peers(
        [*(one.line.text for one in known), *(() if shared else (line.text for line in scan.odd))]
    )
    how, known_line, raised = _judge_end(scan, rank if shared else None, known, unit)
    text, line = _describe_end(known_line, raised)
    time, own_time = _find_time(known_line, raised), _find_own_time(known_line, raised)
    in_path = None if shared else rank_names.find_rank(scan.name)
    # Other numbers in the path may be those on the node, of a node or of a pod.
    is_rank = rank_names.is_of_one_rank(scan.name) and rank_names.find_local_rank(scan.name) is None
    named = (in_path, peers.own) if is_rank else (peers.own, in_path)
    last = scan.progress.last
    if last and unit and rank_names.find_prefix_unit(last.text.decode("utf-8", "replace")) != unit:
        last = None
    return ProcessEnd(
        log=scan.name,
        how=how,
        rank=next((one for one in (rank, *named) if one is not None), None),
        is_numbered=not is_rank and rank is None and peers.own is None,
        host=rank_names.find_host(scan.name)
        or max((rank_names.find_prefix_host(one.line.text) for one in known), default=""),
        reason=text,
        place=raised_place.shorten_place(raised.raised_in) if raised and how == "exception" else "",
        time=_read_step_time(last) if own_time is None and time is None and last else own_time or time,
        is_estimate=own_time is None and bool(known_line or raised),
        step=last.step if last else None,
        waits=(peers.waits or _find_collective(raised)) if how == "waited" else "",
        named=peers.named if how == "waited" else (),
        work=peers.work,
        line=line,
    )


def _find_collective(raised: RaisedException | None) -> str:
    """Return the collective operation in which the exception was raised, by its frames."""
    called = [
        found[1] or found[2] for frame in (raised.frames if raised else ()) if (found := _COLLECTIVE.search(frame))
    ]
    return called[-1] if called else ""


def _judge_end(
    scan: LogFindings, rank: int | None, known: Sequence[_KnownLine], unit: str
) -> tuple[EndKind, _KnownLine | None, RaisedException | None]:
    raised = find_own_exception(scan, rank, unit)
    entry = find_entry_of(raised, known) if raised else None
    causes = [one for one in known if one.entry.kind == "cause" and not one.entry.peer]
    is_past = bool(raised and raised.is_handled and causes)  # the program continued, and something else ended it
    if raised and not is_past and (entry is None or (entry.kind == "cause" and not entry.peer)):
        return "exception", None, raised
    if causes:
        is_signal = any(code.startswith(SIGNAL) for code in causes[0].entry.codes)
        return "signal" if is_signal else "error", causes[0], None
    # What the exception itself says of its peers counts more than other lines.
    for peer in (entry.peer if entry else "", *_PEER_ENDS):
        found = next((one for one in known if one.entry.peer == peer), None) if peer else None
        if found:
            return _PEER_ENDS[peer], found, raised
    if raised:
        return "exception", None, raised
    other = next((one for one in known if one.entry.kind == "symptom"), None)
    if other:
        return "error", other, None
    if scan.progress.end and not any(one.entry.kind == "summary" for one in known):
        return "finished", None, None
    summary = next((one for one in known if one.entry.kind == "summary"), None)
    return ("stopped", summary, None) if summary else ("running", None, None)


_PEER_ENDS: Mapping[str, EndKind] = {"waits": "waited", "gone": "stopped"}


def _describe_end(known: _KnownLine | None, raised: RaisedException | None) -> tuple[str, int]:
    if known:
        return known.line.text.strip()[:160], known.line.line
    return (raised.text[:160], raised.end or raised.line) if raised else ("", 0)


def _find_time(known: _KnownLine | None, raised: RaisedException | None) -> float | None:
    if known:
        return known.line.time
    return raised.time if raised else None


def _find_own_time(known: _KnownLine | None, raised: RaisedException | None) -> float | None:
    """The time in the line itself or in the exception's own block of lines."""
    time = timestamps.parse_timestamp(known.line.text) if known else None
    return raised.own_time if time is None and raised else time


def _read_step_time(last: StepLine) -> float | None:
    return timestamps.parse_timestamp(last.text.decode("utf-8", "replace"))

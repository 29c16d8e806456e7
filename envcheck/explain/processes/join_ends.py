"""One end for each process: its streams in several files, and what its launcher reports of it; pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Sequence
from dataclasses import replace

from envcheck.explain.processes import rank_names
from envcheck.explain.processes.launcher_report import ReportedEnd
from envcheck.explain.processes.process_end import FAILED, EndKind, ProcessEnd

# stdout.log and stderr.log in one folder, job_3.out and job_3.err.
_STREAM = re.compile(r"(?:^|(?<=/))std(?:out|err)(?:\.(?:log|txt))?(?:\.gz)?$|\.(?:out|err|stdout|stderr)(?:\.gz)?$")
# What says most comes first.
_WEIGHT: tuple[EndKind, ...] = ("exception", "signal", "error", "waited", "stopped", "finished", "running")
_ENDED_BY_LAUNCHER = (-signal.SIGTERM, 128 + signal.SIGTERM)


def join_streams(ends: Sequence[ProcessEnd]) -> list[ProcessEnd]:
    """Join the ends in files that are streams of one process."""
    joined: dict[str, ProcessEnd] = {}
    logs = [end.log for end in ends]
    for at, end in enumerate(ends):
        found = _STREAM.search(end.log) if logs.count(end.log) == 1 else None
        key = f"{end.log[: found.start()]}\n" if found else f"{end.log}\n{at}"
        joined[key] = _join_two(joined[key], end) if key in joined else end
    return list(joined.values())


def _join_two(one: ProcessEnd, other: ProcessEnd) -> ProcessEnd:
    main, more = sorted((one, other), key=lambda end: _WEIGHT.index(end.how))
    return replace(
        main,
        rank=more.rank if main.rank is None or (main.is_numbered and more.rank is not None) else main.rank,
        is_numbered=main.is_numbered and more.is_numbered,
        time=more.time if main.time is None else main.time,
        is_estimate=main.is_estimate or main.time is None,
        step=more.step if main.step is None else main.step,
        work=more.work if main.work is None else main.work,
    )


def place_local(ends: Sequence[ProcessEnd]) -> list[ProcessEnd]:
    """Give the processes of a node their ranks in the job, if the lines of one of them tell its rank.

    The paths of torchrun's logs have the number on the node.
    """
    local = [rank_names.find_local_rank(end.log) for end in ends]
    folders = [end.log.rsplit("/", 2)[0] for end in ends]
    ahead: dict[str, set[int]] = {}
    for end, number, folder in zip(ends, local, folders, strict=True):
        if end.rank is not None and number is not None and end.rank > number:
            ahead.setdefault(folder, set()).add(end.rank - number)
    return [
        replace(end, rank=number + min(ahead[folder]))
        if number is not None and end.rank == number and len(ahead.get(folder, ())) == 1
        else end
        for end, number, folder in zip(ends, local, folders, strict=True)
    ]


def place_numbered(ends: Sequence[ProcessEnd]) -> list[ProcessEnd]:
    """Correct ranks that are only a number in the name of a log, by those that the lines of other logs tell.

    The number may be that of a pod, as of worker-0, which is rank 1 next to a master, or of a node with several ranks.
    """
    shifts = {0, 1} if any("master" in end.log.rpartition("/")[2] for end in ends) else {0}
    ahead: dict[str, set[int]] = {}
    series = [rank_names.find_series(end.log) for end in ends]
    for end, name in zip(ends, series, strict=True):
        number = rank_names.find_rank(end.log)
        if name and not end.is_numbered and end.rank is not None and number is not None:
            ahead.setdefault(name, set()).add(end.rank - number)
    return [_place_one(end, ahead.get(name, set()), shifts) for end, name in zip(ends, series, strict=True)]


def _place_one(end: ProcessEnd, ahead: set[int], shifts: set[int]) -> ProcessEnd:
    if not end.is_numbered or end.rank is None:
        return end
    if not ahead:
        return replace(end, rank=None) if rank_names.names_pod(end.log) else end
    return replace(end, rank=end.rank + min(ahead) if len(ahead) == 1 and ahead <= shifts else None)


def apply_reports(ends: Sequence[ProcessEnd], log: str, reports: Sequence[ReportedEnd]) -> list[ProcessEnd]:
    """Add to the ends what the launcher with this log reports."""
    if not reports:
        return list(ends)
    found = [_name_rank(end, log, reports) for end in ends]
    telling = sorted(range(len(found)), key=lambda at: _WEIGHT.index(found[at].how))
    places = {found[at].rank: at for at in reversed(telling)}  # of each rank the end that says most
    for one in reports:
        mine = places.get(one.rank)
        if mine is None:
            found.append(_make_end(log, one))
        else:
            found[mine] = _complete_end(found[mine], one)
    return [end for end in found if end.log != log or end.rank is not None or end.unit]  # the launcher's own end


def leave_out_others(ends: Sequence[ProcessEnd], launchers: Collection[str]) -> list[ProcessEnd]:
    """The ends without logs of launchers and monitors: next to logs of ranks, those without rank, step and end.

    `launchers` are the logs that report ends of others: where a rank failed by its own log, its launcher did not.
    """
    if all(end.rank is None for end in ends):
        return list(ends)
    reporting = launchers if any(end.rank is not None and end.how in FAILED for end in ends) else ()
    return [
        end
        for end in ends
        if end.rank is not None
        or end.unit
        or (end.log not in reporting and (end.how != "running" or end.step is not None))
    ]


def _name_rank(end: ProcessEnd, log: str, reports: Sequence[ReportedEnd]) -> ProcessEnd:
    """Give an end of this launcher its rank in the job: that of the path is the number on the node."""
    if end.log == log and end.rank is None and end.how in ("exception", "error"):
        failed = [one for one in reports if one.is_first] or list(reports[:1])
        return replace(end, rank=failed[0].rank) if failed[0].code > 0 else end
    local = rank_names.find_local_rank(end.log)
    if end.rank is None or local != end.rank or not end.log.startswith(log.rpartition("/")[0]):
        return end
    return replace(end, rank=next((one.rank for one in reports if one.local_rank == local), end.rank))


def _complete_end(end: ProcessEnd, one: ReportedEnd) -> ProcessEnd:
    time = one.time if end.time is None else end.time
    is_estimate = end.time is not None and (end.is_estimate or end.how in ("running", "finished"))
    end = replace(end, is_first=one.is_first, time=time, is_estimate=is_estimate, host=end.host or one.host)
    return end if end.how not in ("running", "finished") else replace(end, how=_judge_code(one), reason=_say_code(one))


def _make_end(log: str, one: ReportedEnd) -> ProcessEnd:
    host = one.host or rank_names.find_host(log)
    return ProcessEnd(log, _judge_code(one), one.rank, host, _say_code(one), time=one.time, is_first=one.is_first)


def _judge_code(one: ReportedEnd) -> EndKind:
    if one.code in _ENDED_BY_LAUNCHER:
        return "stopped"
    return "signal" if one.code < 0 or one.code > 128 else "error"


def _say_code(one: ReportedEnd) -> str:
    number = -one.code if one.code < 0 else one.code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {one.code}"

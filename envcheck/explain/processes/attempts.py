"""Logs of attempts that a launcher replaced by a later one: torchrun has a folder for each; pure."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.explain.processes.process_end import BROKEN, ProcessEnd
from envcheck.explain.processes.rank_names import find_attempt


def have_attempts(logs: Sequence[str]) -> bool:
    """Return whether a log is of a later attempt than the first."""
    return any(number for _run, number in map(find_attempt, logs))


def list_replaced_logs(logs: Sequence[str], ends: Sequence[ProcessEnd]) -> frozenset[str]:
    """Return the logs of attempts after which a later one of the same run went on or finished.

    If the last attempt failed as well, none is left out: the first failure may be the cause of all.
    """
    broken = {end.log for end in ends if end.how in BROKEN}
    last: dict[str, int] = {}
    for run, number in map(find_attempt, logs):
        last[run] = max(last.get(run, 0), number)
    failed = {run for run, number in map(find_attempt, broken) if number == last.get(run)}
    return frozenset(
        log for log in logs for run, number in (find_attempt(log),) if number < last[run] and run not in failed
    )

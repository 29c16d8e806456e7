"""A run that ended after its supervisor did: its record lacks the end, which the shim and the logs have."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from launch.run import host_training, record
from launch.run.states import ACTIVE, ENDS, FAILED, LOST, SUCCEEDED, find_end, list_end_values
from launch.runs import follow
from launch.runs.backends import find_scheduler
from launch.runs.run_state import Run


def complete_run(run: Run) -> Run:
    """Return the run with end, duration, losses and speed if only its record lacks them; the record stays as it is."""
    has_ended = run.state in (FAILED, SUCCEEDED, LOST) and find_end(run.said) in ACTIVE
    if not has_ended or find_scheduler(run.said):
        return run
    return replace(run, said={**run.said, **record.summarize_steps(follow.read_steps(run)), **_list_end(run)})


def _list_end(run: Run) -> dict[str, Any]:
    """State, exit and time of the end; nothing for a lost run, whose end nobody saw."""
    status = host_training.read_status(run.folder)
    if status is None:
        return {}
    try:
        ended = datetime.fromtimestamp((run.folder / host_training.STATUS_FILE).stat().st_mtime, timezone.utc)
        seconds = (ended - datetime.fromisoformat(run.get_text("started"))).total_seconds()
    except (OSError, ValueError, TypeError):
        return {}
    return {
        **list_end_values(run.state),
        "exit": {"code": ENDS[run.state].code, "status": status},
        "ended": record.format_time(ended),
        "seconds": round(max(0.0, seconds), 1),
    }

"""State of a job from squeue, cached for KEPT_S: all users of a cluster query the same slurmctld."""

from __future__ import annotations

import functools
import os
import re
import time
from dataclasses import dataclass

from envcheck.core.messages import _
from envcheck.core.process import run_command
from launch.backends.slurm import control

TIMEOUT_S = 10.0  # `envcheck runs` queries each run that has not ended
KEPT_S = 2.0  # a result is reused for this long
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "SUSPENDED", "STOPPED")
RUNS = ("RUNNING", "CONFIGURING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING")
GONE = "GONE"  # Slurm forgets a job MinJobAge (300 s by default) after its end
UNKNOWN = "UNKNOWN"  # squeue failed


@dataclass(frozen=True)
class SlurmJobStatus:
    """`state` is Slurm's job state, GONE or UNKNOWN; `reason` is why the job waits or ended; `nodes` its node list."""

    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the job is pending or suspended."""
        return self.state in WAITS

    @property
    def is_over(self) -> bool:
        """Whether the job has ended; False if its state is unknown."""
        return self.state not in (*WAITS, *RUNS, UNKNOWN)


def read_job_status(job: str) -> SlurmJobStatus:
    """Return the state of a job id; UNKNOWN for other text, which a record from another user may contain."""
    return (
        _query_job_status(job, int(time.monotonic() / KEPT_S))
        if re.fullmatch(r"\d{1,12}", job)
        else SlurmJobStatus(UNKNOWN)
    )


@functools.lru_cache(maxsize=256)
def _query_job_status(job: str, _moment: int) -> SlurmJobStatus:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")
    }  # these filter the output
    argv = ("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T|%r|%N")
    result = run_command(argv, timeout_s=TIMEOUT_S, env=own)
    if result.status:
        why = _("squeue not found") if result.absent else control.describe_error(result)
        return SlurmJobStatus(GONE if "Invalid job id" in result.err else UNKNOWN, why)
    return parse_squeue(result.out)


def parse_squeue(text: str) -> SlurmJobStatus:
    """Return the state in the output of squeue; a heterogeneous job has one line per component, in any order:

    PENDING|Resources|
    RUNNING|None|node[01-08]
    """
    rows = [[part.strip() for part in line.split("|")] for line in text.splitlines()[:128]]
    if not rows or any(len(row) != 3 for row in rows):
        return SlurmJobStatus(UNKNOWN if rows else GONE, text[:200].strip())
    state, reason, _unused = min(rows, key=lambda row: 0 if row[0] in RUNS else 1 if row[0] in WAITS else 2)
    nodes = ",".join(row[2] for row in rows[::-1] if row[2])
    return SlurmJobStatus(state, "" if reason == "None" else reason[:200], nodes[:2000])


def clear_status_cache() -> None:
    """Make the next call of `read_job_status` query Slurm again."""
    _query_job_status.cache_clear()

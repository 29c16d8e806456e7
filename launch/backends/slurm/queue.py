"""How a job stands in Slurm's queue.  Asked seldom: hundreds of people ask the same slurmctld."""

from __future__ import annotations

import functools
import os
import re
import time
from dataclasses import dataclass

from envcheck.core.process import run
from launch.backends.slurm import control

TIMEOUT_S = 10.0  # a list of many runs asks once for each that is not over
KEPT_S = 2.0  # an answer is as good as new for so long
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "SUSPENDED", "STOPPED")
RUNS = ("RUNNING", "CONFIGURING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING")
GONE = "GONE"  # Slurm forgets a job some minutes after its end
UNTOLD = "UNTOLD"


@dataclass(frozen=True)
class SlurmJobStatus:
    """`state` is Slurm's word, GONE, or UNTOLD where it did not answer; `reason` why it waits or ended."""

    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def waits(self) -> bool:
        return self.state in WAITS

    @property
    def over(self) -> bool:
        return self.state not in (*WAITS, *RUNS, UNTOLD)


def standing(job: str) -> SlurmJobStatus:
    """UNTOLD for what is no number of a job."""
    return _asked(job, int(time.monotonic() / KEPT_S)) if re.fullmatch(r"\d{1,12}", job) else SlurmJobStatus(UNTOLD)


@functools.lru_cache(maxsize=256)
def _asked(job: str, _moment: int) -> SlurmJobStatus:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}  # they narrow it
    argv = ("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T|%r|%N")
    told = run(argv, timeout_s=TIMEOUT_S, env=own)
    if told.status:
        why = "there is no squeue here" if told.absent else control.why(told)
        return SlurmJobStatus(GONE if "Invalid job id" in told.err else UNTOLD, why)
    return parse(told.out)


def parse(text: str) -> SlurmJobStatus:
    """A line for the job, or one for each component of a heterogeneous one, in any order:

    PENDING|Resources|
    RUNNING|None|node[01-08]
    """
    rows = [[part.strip() for part in line.split("|")] for line in text.splitlines()[:128]]
    if not rows or any(len(row) != 3 for row in rows):
        return SlurmJobStatus(UNTOLD if rows else GONE, text[:200].strip())
    state, reason, _ = min(rows, key=lambda row: 0 if row[0] in RUNS else 1 if row[0] in WAITS else 2)
    nodes = ",".join(row[2] for row in rows[::-1] if row[2])
    return SlurmJobStatus(state, "" if reason == "None" else reason[:200], nodes[:2000])


def forget() -> None:
    """The next answer is a fresh one."""
    _asked.cache_clear()

"""What Slurm is asked for, against what is started there; and processes against visible devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.rules.variables import visible_count
from envcheck.scripts.docker_commands import count_devices
from envcheck.vendors import VENDORS

_GPUS = re.compile(
    rf"(?:--gpus-per-node[= ]|--gres[= ](?:gpu|{'|'.join(VENDORS)}):)(?:[A-Za-z][\w.-]*:)?(\d{{1,3}})(?=\s|$|,)"
)


def processes(context: LintContext) -> Iterator[Remark]:
    yield from visible_count(context)
    for job in context.jobs:
        given = _given(job)
        if given and job.trains and (job.processes or 0) > given:
            seen = f"{job.processes} processes on each node, and Slurm is asked for {given} of its cards"
            yield fail(job.told("processes") or job.devices or job, seen, f"At most {given}, or ask for more.")
        container = context.container_of(job)
        cards = count_devices(container) if container else None
        if cards and job.trains and (job.processes or 0) > cards:
            seen = f"{job.processes} processes, and {cards} of the cards are handed to the container"
            yield fail(job.told("processes") or job.devices or job, seen, f"At most {cards}, or hand in more.")


def _given(job: TrainingJob) -> int | None:
    """Cards of a node by srun's own options, else by those of the file's head; the last one counts."""
    words = " ".join(job.command.texts()) if job.command.name == "srun" else ""
    head = " ".join(text for _, _, text in job.script.comments if text.startswith("#SBATCH"))
    found = _GPUS.findall(words) or _GPUS.findall(head)
    return int(found[-1]) if found else None

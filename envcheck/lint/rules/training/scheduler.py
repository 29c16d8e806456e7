"""What Slurm is asked for, against what is started there; and processes against visible devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.model import Remark
from envcheck.lint.context.paper import Paper
from envcheck.lint.rules.common import fail
from envcheck.lint.rules.variables import visible_count
from envcheck.scripts.jobs import Job

_GPUS = re.compile(r"(?:--gpus-per-node[= ]|--gres[= ](?:gpu|npu):)(?:[A-Za-z][\w.-]*:)?(\d{1,3})(?=\s|$|,)")


def processes(paper: Paper) -> Iterator[Remark]:
    yield from visible_count(paper)
    for job in paper.jobs:
        given = _given(job)
        if given and job.trains and (job.processes or 0) > given:
            seen = f"{job.processes} processes on each node, and Slurm is asked for {given} of its cards"
            yield fail(job.told("processes") or job.devices or job, seen, f"At most {given}, or ask for more.")
        container = paper.container_of(job)
        cards = container.cards if container else None
        if cards and job.trains and (job.processes or 0) > cards:
            seen = f"{job.processes} processes, and {cards} of the cards are handed to the container"
            yield fail(job.told("processes") or job.devices or job, seen, f"At most {cards}, or hand in more.")


def _given(job: Job) -> int | None:
    """Cards of a node by srun's own options, else by those of the file's head; the last one counts."""
    words = " ".join(job.command.texts()) if job.command.name == "srun" else ""
    head = " ".join(text for _, _, text in job.script.comments if text.startswith("#SBATCH"))
    found = _GPUS.findall(words) or _GPUS.findall(head)
    return int(found[-1]) if found else None

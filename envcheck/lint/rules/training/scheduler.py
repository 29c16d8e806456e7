"""Rules about Slurm: requested devices compared with processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _
from envcheck.lint.rules.environment_variables import find_wrong_visible_count
from envcheck.scripts.docker_commands import count_devices
from envcheck.scripts.jobs.launch_values import explain_invalid_nodes, explain_invalid_processes
from envcheck.vendors import VENDORS

_GPUS = re.compile(
    rf"(?:--gpus-per-node[= ]|--gres[= ](?:gpu|{'|'.join(VENDORS)}):)(?:[A-Za-z][\w.-]*:)?(\d{{1,3}})(?=\s|$|,)"
)


def find_too_many_processes(context: LintContext) -> Iterator[Remark]:
    yield from find_wrong_visible_count(context)
    for job in context.jobs:
        if job.is_training and (impossible := explain_invalid_nodes(job)):
            yield fail(job.find_launch_value("nodes") or job, impossible, _("Write a number in this range."))
        if job.is_training and (impossible := explain_invalid_processes(job)):
            yield fail(job.find_launch_value("processes") or job, impossible, _("Use one process for each device."))
            continue
        given = _count_requested_cards(job)
        if given and job.is_training and (job.processes_per_node or 0) > given:
            seen = _(
                "the job starts {processes} processes on each node, but requests {given} devices from Slurm",
                processes=job.processes_per_node,
                given=given,
            )
            yield fail(
                job.find_launch_value("processes") or job.device_list or job,
                seen,
                _("Use at most {given}, or request more.", given=given),
            )
        container = context.find_container(job)
        cards = count_devices(container) if container else None
        if cards and job.is_training and (job.processes_per_node or 0) > cards:
            seen = _(
                "the job starts {processes} processes, but the container gets {cards} devices",
                processes=job.processes_per_node,
                cards=cards,
            )
            yield fail(
                job.find_launch_value("processes") or job.device_list or job,
                seen,
                _("Use at most {cards}, or pass more devices to the container.", cards=cards),
            )


def _count_requested_cards(job: TrainingJob) -> int | None:
    """Devices per node by srun's options, otherwise by the #SBATCH lines; the last one applies."""
    words = " ".join(job.command.list_texts()) if job.command.name == "srun" else ""
    head = " ".join(text for _unused, _unused, text in job.script.comments if text.startswith("#SBATCH"))
    found = _GPUS.findall(words) or _GPUS.findall(head)
    return int(found[-1]) if found else None

"""A training as a Slurm job: its components with their nodes, devices and options, as frozen data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, ngettext
from envcheck.core.paths import has_control_characters
from envcheck.job.command import TrainingCommand, render_job
from envcheck.job.command_values import fill_values
from envcheck.job.definition import Job
from envcheck.job.repeat_options import format_job_options, option_word
from launch.backends import submission_checks
from launch.backends.slurm.placement import ComponentPlacement, choose_placement
from launch.backends.slurm.site import PartitionRow, parse_gres
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.targets.train_request import TrainRequest

FORWARDED_OPTIONS = ("nnodes", "cards", "steps", "port", "data")  # passed on to the nodes unchanged


SERVICES = {6817: "slurmctld", 6818: "slurmd", 6819: "slurmdbd"}  # the default ports of Slurm


@dataclass(frozen=True)
class JobComponent:
    """`job` runs on each of the `nodes` nodes, `words` are the options of `envcheck train` there, `command` is what the
    launcher starts."""

    job: Job
    nodes: int
    place: ComponentPlacement
    words: tuple[str, ...]
    command: TrainingCommand

    @property
    def device(self) -> str:
        """The vendor's short name, such as npu."""
        return self.job.device

    @property
    def role(self) -> str:
        """The role of its nodes in a job over mixed devices, else ""."""
        return self.job.method.role


@dataclass(frozen=True)
class SlurmPlan:
    """`nodes` counts those of the whole job; `run` is its folder, on a file system that all nodes share; `envcheck` is
    the program that the nodes start."""

    name: str
    title: str
    run: Path
    envcheck: str
    nodes: int
    components: tuple[JobComponent, ...]
    options: SlurmOptions


def build_plan(
    request: TrainRequest,
    jobs: Sequence[Job],
    options: SlurmOptions,
    rows: Sequence[PartitionRow] | None,
    run: Path,
    envcheck: str,
) -> SlurmPlan:
    """Return the plan for the `jobs` of resolve_roles; UsageError if the options do not match them or the cluster."""
    for option, values in (("--partition", options.partition), ("--gres", options.gres)):
        if len(values) not in (0, 1, len(jobs)):
            raise UsageError(
                _("{option} was given {count} times", option=option, count=len(values)),
                ngettext(
                    "give it once; the job has {count} component",
                    "give it once, or once for each of the {count} components of the job",
                    len(jobs),
                ),
            )
    if has_control_characters(str(run)) or set(str(run)) & set('"\\'):  # part of an #SBATCH line
        raise UsageError(
            _("the path of the run folder has quotes, backslashes or control characters: {run!r}", run=str(run)[:200]),
            _("choose another folder with --runs"),
        )
    components = tuple(_build_component(request, options, rows, job, n) for n, job in enumerate(jobs))
    first = jobs[0].method
    name = "-".join(filter(None, (jobs[0].recipe.name, first.method, first.variant)))
    return SlurmPlan(name, components[0].command.title, run, envcheck, first.nodes, components, options)


def _build_component(
    request: TrainRequest, options: SlurmOptions, rows: Sequence[PartitionRow] | None, job: Job, number: int
) -> JobComponent:
    nodes = 1 if job.method.role else job.method.nodes
    own = [values[min(number, len(values) - 1)] if values else "" for values in (options.partition, options.gres)]
    place = choose_placement(rows, job.device, nodes, job.method.processes, *own)
    command = render_job(job, fill_values(request, job.recipe, None))
    submission_checks.check_values(command)
    if place.is_gres_said:
        count = sum(one.count for one in parse_gres(place.gres))
        submission_checks.check_device_count("--gres", place.gres, count, job.method, job.device)
    taken = {**submission_checks.HOST_SERVICES, **SERVICES}
    submission_checks.check_ports(job, command, taken, is_root=job.image is not None or os.geteuid() == 0)
    return JobComponent(job, nodes, place, list_node_options(request, job), command)


def list_node_options(request: TrainRequest, job: Job) -> tuple[str, ...]:
    """Return the options of `envcheck train` on each node; the script adds rank and master."""
    import shlex

    found = shlex.split(format_job_options(_make_paths_absolute(request), job.recipe, job.method))
    pairs = [(option_word(name), getattr(request, name)) for name in FORWARDED_OPTIONS]
    pairs += [("--deadline", request.deadline_s), ("--gather", request.gather_s if job.method.nodes > 1 else None)]
    several = {
        "--set": request.settings,
        "--installed": request.installed,
        "--no-stop": request.no_stop,
        "--stop": request.stop,
    }
    several |= {"--limit": request.limits, "--waive": request.waive, "--because": request.because}
    found += [word for option, value in pairs if value is not None for word in (option, _format_option_value(value))]
    found += [word for option, values in several.items() for value in values for word in (option, value)]
    return (*found, *(("--", *request.extra) if request.extra else ()))


def _format_option_value(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _make_paths_absolute(request: TrainRequest) -> TrainRequest:
    """Return the request with absolute paths: nodes may start in another working directory."""
    named = {name: path.expanduser().absolute() for name in ("into", "recipes") if (path := getattr(request, name))}
    return replace(request, **named)

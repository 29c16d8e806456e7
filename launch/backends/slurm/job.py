"""A training as a job of Slurm: its components, each with its own nodes, cards and words, as frozen data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.job.command import TrainingCommand, render_job
from envcheck.job.job import Job
from envcheck.job.repeat_options import format_job_options
from envcheck.job.values import fill_values
from launch.backends.slurm.place import ComponentPlacement, place
from launch.backends.slurm.site import PartitionRow
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.targets.request import TrainRequest

KEPT = ("nnodes", "cards", "steps", "port", "data")  # those of the request that the nodes are told in the same words


@dataclass(frozen=True)
class JobComponent:
    """`job` is what runs on each of its nodes, `words` the options of train for it there, `command` what its launcher
    starts in the end."""

    job: Job
    nodes: int
    place: ComponentPlacement
    words: tuple[str, ...]
    command: TrainingCommand

    @property
    def device(self) -> str:
        return self.job.device

    @property
    def role(self) -> str:
        return self.job.method.role


@dataclass(frozen=True)
class SlurmPlan:
    """`nodes` are those of the whole job; `run` its folder, which all nodes see; `envcheck` the program there."""

    name: str
    title: str
    run: Path
    envcheck: str
    nodes: int
    components: tuple[JobComponent, ...]
    wish: SlurmOptions


def plan(
    request: TrainRequest,
    jobs: Sequence[Job],
    wish: SlurmOptions,
    rows: Sequence[PartitionRow] | None,
    run: Path,
    envcheck: str,
) -> SlurmPlan:
    """The `jobs` of resolve_roles as the site can take them; UsageError where it cannot."""
    for word, said in (("--partition", wish.partition), ("--gres", wish.gres)):
        if len(said) not in (0, 1, len(jobs)):
            raise UsageError(f"{word} was said {len(said)} times", f"once, or for each of {len(jobs)} components")
    made = tuple(_component(request, wish, rows, job, n) for n, job in enumerate(jobs))
    first = jobs[0].method
    name = "-".join(filter(None, (jobs[0].recipe.name, first.method, first.variant)))
    return SlurmPlan(name, made[0].command.title, run, envcheck, first.nodes, made, wish)


def _component(
    request: TrainRequest, wish: SlurmOptions, rows: Sequence[PartitionRow] | None, job: Job, number: int
) -> JobComponent:
    nodes = 1 if job.method.role else job.method.nodes
    said = [texts[min(number, len(texts) - 1)] if texts else "" for texts in (wish.partition, wish.gres)]
    there = place(rows, job.device, nodes, job.method.processes, *said)
    made = render_job(job, fill_values(request, job.recipe, None))
    return JobComponent(job, nodes, there, node_words(request, job), made)


def node_words(request: TrainRequest, job: Job) -> tuple[str, ...]:
    """The options with which each node starts its own part; its rank and the master stand in the script."""
    import shlex

    found = shlex.split(format_job_options(_absolute(request), job.recipe, job.method))
    pairs = [(f"--{name}", getattr(request, name)) for name in KEPT]
    pairs += [("--deadline", request.deadline_s), ("--gather", request.gather_s if job.method.nodes > 1 else None)]
    several = {"--set": request.settings, "--installed": request.installed, "--no-stop": request.no_stop}
    several |= {"--limit": request.limits, "--waive": request.waive, "--because": request.because}
    found += [word for option, value in pairs if value is not None for word in (option, _word(value))]
    found += [word for option, values in several.items() for value in values for word in (option, value)]
    return (*found, *(("--", *request.extra) if request.extra else ()))


def _word(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _absolute(request: TrainRequest) -> TrainRequest:
    """Each node starts in a folder of its own choice."""
    named = {name: path.expanduser().absolute() for name in ("into", "recipes") if (path := getattr(request, name))}
    return replace(request, **named)

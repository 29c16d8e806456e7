"""How a training comes to its nodes: by what it is carried there, what each is told, and what all are told alike."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.training_job import TrainingJob

_EACH_ALIKE = ("srun", "mpirun", "mpiexec")
_CARRIERS = (*_EACH_ALIKE, "pdsh", "deepspeed")
# What may tell the nodes otherwise: variables that are handed on by name, or a start that is of one node alone.
_OTHERWISE = re.compile(r" (?:--export\b|-x |-genv|-env|-w|--nodelist|-N ?1 |--nodes[= ]1 |-r |--relative)")
_DEFAULTS = str(Path("~/.cache/huggingface/accelerate/default_config.yaml").expanduser())


def several(job: TrainingJob) -> bool:
    return job.trains and (job.nodes or 0) > 1


def carried(job: TrainingJob) -> bool:
    """srun, mpirun or ssh starts it on each node: what stands there is worked out on each."""
    return job.command.elsewhere or _first(job) in _CARRIERS


def alike(job: TrainingJob) -> bool:
    """srun, mpirun or a loop of ssh hands it the same words and variables on each node, and all can be seen."""
    if job.command.elsewhere or _first(job) not in _EACH_ALIKE:
        return job.command.everywhere
    return job.command.everywhere or not _OTHERWISE.search(" ".join(job.command.texts()))


def _first(job: TrainingJob) -> str:
    words = job.command.texts()
    return words[0].rpartition("/")[2] if words else ""


def told_inside(context: LintContext, job: TrainingJob) -> bool:
    """Its container gets a number of nodes, all that it gets can be seen, and none of it is taken from outside."""
    container = context.container_of(job)
    if container is None or container.open or container.has("--env-file"):
        return False
    names = {name for name, _, _ in container.environment}
    taken = any("=" not in word.text for word in container.all("-e", "--env"))
    return not taken and bool(names & set(job.launcher.variables.get("nodes", ())))


def told_elsewhere(context: LintContext, job: TrainingJob) -> bool:
    """accelerate's own file says more, and it is not to be had; without one the user's own counts."""
    if job.launcher.name != "accelerate" or any(given.key for given in job.own):
        return False
    return job.says("config_file") is not None or bool(context.machine.exists(_DEFAULTS))


def from_outside(job: TrainingJob, role: str) -> bool:
    """The script looks at the variable, so somebody sets it."""
    names = set(job.launcher.variables.get(role, ()))
    return any(use.name in names for use in job.script.uses)


def way(job: TrainingJob, role: str) -> str:
    """By which the launcher is told it."""
    names = job.launcher.options.get(role, ())
    if names:
        return f"--{names[0]} N"
    variables = job.launcher.variables.get(role, ())
    return f"export {variables[0]}=N" if variables else ""


def of_role(job: TrainingJob) -> bool:
    """A script for the nodes of one vendor, of two in the job: its rank is its role."""
    return any(name.startswith("FLAGCX_") for name in job.command.environment)

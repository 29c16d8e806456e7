"""How a training is started on its nodes, and which arguments each node gets."""

from __future__ import annotations

import re
from itertools import takewhile

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.script_model import ShellCommand
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import NOTHING, Message, verbatim
from envcheck.core.portable.home_folder import find_user_home

_EACH_ALIKE = ("srun", "mpirun", "mpiexec")
_CARRIERS = (*_EACH_ALIKE, "pdsh", "deepspeed")
# Options by which nodes may differ: variables passed by name, or a start on one node only.
_OTHERWISE = re.compile(r" (?:--export\b|-x |-genv|-env|-w|--nodelist|-N ?1 |--nodes[= ]1 |-r |--relative)")
# Launchers that start the processes of a node.
SHARING = ("torchrun", "torch.distributed.launch", "torch.distributed.run", "accelerate", "deepspeed",
           "paddle.distributed.launch")  # fmt: skip
_DEFAULTS = ".cache/huggingface/accelerate/default_config.yaml"  # in the user's home


def is_multi_node(job: TrainingJob) -> bool:
    return job.is_training and (job.node_count or 0) > 1


def is_started_remotely(job: TrainingJob) -> bool:
    """Return whether srun, mpirun, ssh or a program that gets the launcher as arguments starts it on each node."""
    return job.command.elsewhere or _read_first_word(job) in _CARRIERS or _is_passed_to_program(job)


def _is_passed_to_program(job: TrainingJob) -> bool:
    """Whether a Python program before the launcher gets it as its arguments, as those that submit jobs do."""
    before = takewhile(lambda word: word is not job.at, job.command.words)
    return any(word.text.endswith(".py") for word in before)


def starts_python_tasks(command: ShellCommand) -> bool:
    """Return whether srun starts Python in each task, without a launcher that starts the processes of a node."""
    texts = [text.rpartition("/")[2] for text in command.list_texts()[:30]]
    is_launched = any(f"{text}.".startswith(f"{name}.") for text in texts for name in SHARING)
    return command.name == "srun" and any(text.startswith("python") for text in texts) and not is_launched


def gets_same_arguments_everywhere(job: TrainingJob) -> bool:
    """Return whether srun, mpirun or a loop of ssh passes the same, fully known arguments to each node."""
    if job.command.elsewhere or _read_first_word(job) not in _EACH_ALIKE:
        return job.command.everywhere
    return job.command.everywhere or not _OTHERWISE.search(" ".join(job.command.list_texts()))


def _read_first_word(job: TrainingJob) -> str:
    words = job.command.list_texts()
    return words[0].rpartition("/")[2] if words else ""


def gets_nodes_in_container(context: LintContext, job: TrainingJob) -> bool:
    """Return whether its container gets a node count, and all its variables are known."""
    container = context.find_container(job)
    if container is None or container.may_have_more_options or container.has_option("--env-file"):
        return False
    names = {name for name, *_unused in container.environment}
    taken = any("=" not in word.text for word in container.list_option_values("-e", "--env"))
    return not taken and bool(names & set(job.launcher.variables.get("nodes", ())))


def has_other_config_file(context: LintContext, job: TrainingJob) -> bool:
    """Return whether accelerate reads a file that is not available; without an option, it reads the user's own."""
    if job.launcher.name != "accelerate" or any(given.key for given in job.own):
        return False
    home = find_user_home()
    has_defaults = home is not None and bool(context.machine.path_exists(str(home / _DEFAULTS)))
    return job.find_launcher_option("config_file") is not None or has_defaults


def reads_role_variable(job: TrainingJob, role: str) -> bool:
    """Return whether the script reads the variable, so that somebody sets it."""
    names = set(job.launcher.variables.get(role, ()))
    return any(use.name in names for use in job.script.uses)


def describe_setting(job: TrainingJob, role: str, value: str = "N") -> Message:
    """Return the launcher's option or variable for a role, with this value; empty if it has none."""
    names = job.launcher.options.get(role, ())
    if names:
        return verbatim(f"--{names[0]} {value}")
    variables = job.launcher.variables.get(role, ())
    return verbatim(f"export {variables[0]}={value}") if variables else NOTHING


def is_flagcx_role(job: TrainingJob) -> bool:
    """Return whether the script is for one vendor's nodes of a mixed-vendor job: its rank is its role."""
    return any(name.startswith("FLAGCX_") for name in job.command.environment)

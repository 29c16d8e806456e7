"""Rules about Slurm: requested devices compared with processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, warn
from envcheck.core.lint.script_model import Remark, ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, ngettext
from envcheck.lint.rules.containers import refuse_processes
from envcheck.lint.rules.environment_variables import find_wrong_visible_count
from envcheck.lint.rules.pods import find_pod_processes
from envcheck.lint.rules.training.multi_node import SHARING, starts_python_tasks
from envcheck.scripts.docker_commands import count_devices
from envcheck.scripts.jobs.launch_values import explain_invalid_nodes, explain_invalid_processes
from envcheck.vendors import VENDORS

_GPUS = re.compile(
    rf"(?:--gpus-per-node[= ]|--gres[= ](?:gpu|{'|'.join(VENDORS)}):)(?:[A-Za-z][\w.-]*:)?(\d{{1,3}})(?=\s|$|,)"
)


def find_too_many_processes(context: LintContext) -> Iterator[Remark]:
    yield from find_wrong_visible_count(context)
    yield from _find_tasks_without_device(context)
    yield from find_pod_processes(context)
    for job in context.jobs:
        if job.is_training and (impossible := explain_invalid_nodes(job)):
            yield fail(job.find_launch_value("nodes") or job, impossible, _("Write a number in this range."))
        if job.is_training and (impossible := explain_invalid_processes(job)):
            yield fail(job.find_launch_value("processes") or job, impossible, _("Use one process for each device."))
            continue
        yield from _compare_tasks(job)
        yield from _find_lone_launcher(job)
        given = _count_requested_cards(job)
        if given and job.is_training and (job.processes_per_node or 0) > given:
            seen = _describe_excess(job.processes_per_node or 0, given)
            yield fail(
                job.find_launch_value("processes") or job.device_list or job,
                seen,
                _("Use at most {given}, or request more.", given=given),
            )
        container = context.find_container(job)
        cards = count_devices(container) if container else None
        if cards and job.is_training and (job.processes_per_node or 0) > cards:
            place = job.find_launch_value("processes") or job.device_list or job
            yield refuse_processes(place, job.processes_per_node or 0, cards)


_TASKS, _NODES, _ALL_TASKS = (
    re.compile(rf"(?<!\S)(?:{words})[= ]?(\d{{1,4}})(?=\s|$)")
    for words in ("--ntasks-per-node", "--nodes|-N", "--ntasks|-n")
)
_OWN_COUNT = re.compile(r"\s(?:-n|--ntasks|-N|--nodes)[= \d]")


def _compare_tasks(job: TrainingJob) -> Iterator[Remark]:
    """Compare the tasks that srun starts with a launcher that starts the processes of its node itself."""
    if job.command.name != "srun" or job.launcher.name not in SHARING or not job.is_training:
        return
    words = " ".join(job.command.list_texts()[:30])
    head = _join_head(job.script)
    if _OWN_COUNT.search(words):
        return
    tasks = _TASKS.findall(words) or _TASKS.findall(head)
    if tasks and int(tasks[-1]) > 1 and (job.processes_per_node or 0) > 1:
        seen = _(
            "Slurm starts {tasks} launchers on each node, and each of them starts {processes} processes",
            tasks=int(tasks[-1]),
            processes=job.processes_per_node,
        )
        yield fail(job.find_launch_value("processes") or job, seen, _("Set --ntasks-per-node=1."))
    nodes = _NODES.findall(head)
    place = job.find_launch_value("nodes")
    if nodes and place is not None and place.known_text and job.node_count and job.node_count != int(nodes[-1]):
        there, do = int(nodes[-1]), _("Write the same number, or $SLURM_NNODES.")
        if job.node_count > there:
            seen = _(
                "Slurm starts the launcher on {nodes} nodes, but it waits for {count}",
                nodes=there,
                count=job.node_count,
            )
            yield fail(place, seen, do)
        else:
            seen = _(
                "Slurm starts the launcher on {nodes} nodes, but a job has {count}: the others run separately, or wait",
                nodes=there,
                count=job.node_count,
            )
            yield warn(place, seen, do)


_REMOTE = re.compile(r"\b(?:srun|ssh|pdsh|clush|mpirun|mpiexec|parallel)\b")


def _find_lone_launcher(job: TrainingJob) -> Iterator[Remark]:
    """Find a launcher of several nodes that the batch script starts without srun: on the first node only."""
    nodes, count = _NODES.findall(_join_head(job.script)), job.node_count or 0
    if not nodes or count < 2 or int(nodes[-1]) < 2 or not job.is_training or not job.launcher.name.startswith("torch"):
        return
    if not _REMOTE.search(job.script.block.raw.decode("utf-8", "replace")):
        seen = _("Slurm runs the batch script on the first node only, but the job waits for {count} nodes", count=count)
        yield fail(job.find_launch_value("nodes") or job, seen, _("Put srun before the launcher."))


# Usual options of sbatch, and those that are similar to them.
_SBATCH = frozenset((
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-core", "ntasks-per-socket", "cpus-per-task",
    "cpus-per-gpu", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "mem", "mem-per-cpu", "mem-per-gpu", "gres",
    "gpus", "time", "time-min", "partition", "job-name", "output", "error", "nodelist", "nodefile", "exclude",
    "exclusive", "account", "qos", "constraint",
))  # fmt: skip


def find_unknown_batch_options(context: LintContext) -> Iterator[Remark]:
    """Find misspelt options in #SBATCH lines, which sbatch rejects."""
    for script in context.scripts:
        for start, end, text in script.comments:
            found = re.match(r"#SBATCH\s+--([\w-]+)", text)
            meant = find_similar_name(found[1], _SBATCH, 0.9) if found and found[1] not in _SBATCH else ""
            if found and meant and not meant.startswith(found[1]):
                seen = _("sbatch has no option --{name}: it rejects the script", name=found[1])
                yield fail(ShellWord("", start, end), seen, _("Did you mean {meant}?", meant=f"--{meant}"))


def _describe_excess(processes: int, given: int) -> Message:
    return ngettext(
        "the job starts {processes} processes on each node, but requests {count} device from Slurm",
        "the job starts {processes} processes on each node, but requests {count} devices from Slurm",
        given,
        processes=processes,
    )


def _count_requested_cards(job: TrainingJob) -> int | None:
    return _read_last_number(_GPUS, job.script, job.command)


def _read_last_number(pattern: re.Pattern[str], script: ShellScript, command: ShellCommand) -> int | None:
    """A number per node by srun's options, otherwise by the #SBATCH lines; the last one applies."""
    own = takewhile(lambda text: not text.rpartition("/")[2].startswith("python"), command.list_texts())
    words = " ".join(own) if command.name == "srun" else ""
    found = pattern.findall(words) or pattern.findall(_join_head(script))
    return int(found[-1]) if found else None


def starts_several_tasks(script: ShellScript, command: ShellCommand) -> bool:
    """Return whether srun is known to start the command more than once."""
    total, *others = (_read_last_number(each, script, command) or 0 for each in (_ALL_TASKS, _TASKS, _NODES))
    return (total or max(others)) > 1


def _join_head(script: ShellScript) -> str:
    """The #SBATCH lines in one."""
    return " ".join(text for _unused, _unused, text in script.comments if text.startswith("#SBATCH"))


def _find_tasks_without_device(context: LintContext) -> Iterator[Remark]:
    """Find programs of which srun starts more processes on each node than the job has devices there."""
    for script, command in context.find_commands("srun"):
        if not starts_python_tasks(command) or _OWN_COUNT.search(" ".join(command.list_texts()[:30])):
            continue
        given, tasks = (_read_last_number(each, script, command) for each in (_GPUS, _TASKS))
        if given and tasks and tasks > given:
            seen = _describe_excess(tasks, given)
            yield warn(command.words[0], seen, _("Use at most {given}, or request more.", given=given))

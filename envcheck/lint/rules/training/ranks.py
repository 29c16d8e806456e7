"""Rules about node ranks: missing, equal, or evaluated on the wrong node."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import find_last_option, parse_integer
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellScript, ShellWord, VariableUse
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _
from envcheck.lint.rules.training.multi_node import (
    describe_setting,
    gets_nodes_in_container,
    gets_same_arguments_everywhere,
    has_other_config_file,
    is_flagcx_role,
    is_multi_node,
    is_started_remotely,
    reads_role_variable,
    starts_python_tasks,
)
from envcheck.lint.rules.training.scheduler import starts_several_tasks

_ALL_ZERO = _("the first node's shell expands this before srun: each node uses rank 0")
_IN_QUOTES = _("Use srun bash -c '...' in single quotes, so each node's shell expands it.")
# Always 0 in the shell of a batch script.
_TASKS = ("SLURM_NODEID", "SLURM_PROCID")
_OF_TASK = re.compile(r'"?\$\{?(?:' + "|".join(_TASKS) + r')\}?"?')


def _assigns_ranks_itself(job: TrainingJob) -> bool:
    """torchrun's rendezvous assigns the ranks."""
    backend = job.find_launcher_option("rdzv_backend")
    return bool(backend and backend.value != "static") or bool(
        job.find_launcher_option("hostfile", "ips", "deepspeed_hostfile")
    )


def find_missing_rank(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if not is_multi_node(job) or job.open or job.launcher.name in ("deepspeed", "python"):
            continue
        if _assigns_ranks_itself(job) or has_other_config_file(context, job):
            continue
        if is_started_remotely(job) and not (
            gets_nodes_in_container(context, job) or (gets_same_arguments_everywhere(job) and job.launcher.rank_severe)
        ):
            continue
        if job.find_launcher_option("standalone"):
            seen = _(
                "--standalone supports one node only, but the job has {nodes}: each node trains separately",
                nodes=job.node_count,
            )
            yield fail(
                job.find_launch_value("nodes") or job,
                seen,
                _("Remove --standalone and set the master address."),
            )
        elif job.find_launch_value("rank") is None and not {"RANK", "NODE_RANK"} & set(job.command.environment):
            yield from _remark_missing_rank(job)


def _remark_missing_rank(job: TrainingJob) -> Iterator[Remark]:
    """The remark on a multi-node job without node ranks."""
    place, setting = job.find_launch_value("nodes") or job, describe_setting(job, "rank")
    if not setting or (job.launcher.variables.get("rank") and reads_role_variable(job, "rank")):
        return
    if job.program is None and job.launcher.program:
        do = _("Set it here, or pass --machine_rank N with --config_file.")
        yield warn(place, _("the job has {nodes} machines, but machine_rank is missing", nodes=job.node_count), do)
    elif not job.launcher.rank_severe:
        seen = _(
            "the job has {nodes} nodes without ranks: the ranks, pipeline stages and log numbers are "
            "assigned at random",
            nodes=job.node_count,
        )
        yield warn(
            place,
            seen,
            _("Add {setting}. If the node's own name resolves to loopback, add --host too.", setting=setting),
        )
    else:
        usual = job.launcher.rank_default or 0
        seen = _(
            "the job has {nodes} nodes without ranks: each node uses rank {usual}",
            nodes=job.node_count,
            usual=usual,
        )
        own = f"{setting.removesuffix('N').removeprefix('export ')}$SLURM_NODEID"
        do = _("Use srun bash -c '... {own} ...' in single quotes, so each node uses its own number.", own=own)
        yield fail(
            place,
            seen,
            do
            if job.command.name == "srun"
            else _("Add {setting}, with a different number on each node.", setting=setting),
        )


def find_fixed_rank(context: LintContext) -> Iterator[Remark]:
    """Find ranks that the script fixes, which are then equal on all nodes, and ranks out of range."""
    shown = {
        (job.node_count, parse_integer(told.known_text))
        for job in context.jobs
        if (told := job.find_launch_value("rank")) is not None
    }
    early = sorted(use.start for script in context.scripts for use in _list_uses_before_srun(script))
    yield from _find_rank_of_batch_shell(context)
    for job in context.jobs:
        told = job.find_launch_value("rank")
        worked_out = told is not None and (
            _has_place_within(told, early) or (gets_same_arguments_everywhere(job) and _OF_TASK.fullmatch(told.raw))
        )
        if told is not None and job.node_count != 1 and worked_out and not _assigns_ranks_itself(job):
            yield warn_or_fail(is_multi_node(job), told, _ALL_ZERO, _IN_QUOTES)
            continue
        rank, nodes = parse_integer(told.known_text if told else None), job.node_count
        if told is None or rank is None or nodes is None or told.soft or rank < 0 or not job.is_training:
            continue
        alone = not all((nodes, each) in shown for each in range(nodes))
        if nodes > 1 and rank < nodes and gets_same_arguments_everywhere(job) and alone:
            seen = _(
                "rank {rank} is used on every host: {nodes} nodes share the same rank",
                rank=rank,
                nodes=nodes,
            )
            yield fail(told, seen, _("Number the hosts, and pass each host its own rank."))
        elif rank >= nodes and _has_unread_file(job):
            continue  # the file may have the number of nodes
        elif rank >= nodes:
            yield fail(
                told,
                _("rank {rank} is out of range for {nodes} nodes: ranks start at 0", rank=rank, nodes=nodes),
                _("Use 0 to {last}.", last=nodes - 1),
            )
        elif all((nodes, each) in shown for each in range(nodes)):
            continue  # the script starts each node
        elif (
            nodes > 1
            and not is_started_remotely(job)
            and not _is_from_config_file(job)
            and (context.document or not is_flagcx_role(job))
        ):
            seen = _(
                "rank {rank} is fixed in the script: on another node it is wrong, and two nodes with "
                "the same rank hang or exit",
                rank=rank,
            )
            yield warn(told, seen, _('Read it from the environment: "${NODE_RANK:?}".'))


def _find_rank_of_batch_shell(context: LintContext) -> Iterator[Remark]:
    """Find RANK exported from a task's number before srun: all tasks inherit the value of the batch shell."""
    for script in context.scripts:
        commands = [
            each for each in script.commands if starts_python_tasks(each) and starts_several_tasks(script, each)
        ]
        words = {command.environment["RANK"].start: command.environment["RANK"] for command in commands
                 if "RANK" in command.environment and not command.elsewhere}  # fmt: skip
        for word in words.values():
            if _OF_TASK.fullmatch(word.raw):
                yield fail(word, _ALL_ZERO, _IN_QUOTES)


def _list_uses_before_srun(script: ShellScript) -> Iterator[VariableUse]:
    """Uses of task and node numbers, and copies of them, in srun's arguments: the calling shell expands them."""
    names = {*_TASKS, *(each.name for each in script.assigns if _OF_TASK.fullmatch(each.word.raw))}
    for command in script.commands:
        yield from (use for use in command.uses if use.name in names) if command.name == "srun" else ()


def _has_place_within(word: ShellWord, places: Sequence[int]) -> bool:
    """Whether one of the sorted places is inside the word."""
    at = bisect_left(places, word.start)
    return at < len(places) and places[at] < word.end


def _has_unread_file(job: TrainingJob) -> bool:
    """Whether the launcher reads a configuration that is not here."""
    texts = job.command.list_texts()
    return job.lender is None and job.config is None and any(text.startswith("--config_file") for text in texts)


def _is_from_config_file(job: TrainingJob) -> bool:
    """accelerate's file contains the first node's rank; each node needs its own file."""
    given = find_last_option(job.own, *job.launcher.options.get("rank", ()))
    return given is not None and given.key


def find_unused_rank(context: LintContext) -> Iterator[Remark]:
    """Find rank variables out of range that nothing reads; shell.unused_variable reports other unused ones."""
    ranks = {
        id(script): [assign for assign in script.assigns if assign.name.lower() in ("rank", "node_rank")]
        for script in context.scripts
    }
    for job in context.jobs:
        for assign in ranks.get(id(job.script), ()):
            value = parse_integer(assign.word.known_text)
            named = assign.end < job.start and not assign.word.soft
            if (
                named
                and assign.word.raw.isdigit()
                and value is not None
                and job.node_count
                and value >= job.node_count
                and job.find_launch_value("rank") is None
            ):
                seen = _(
                    "{variable} is {value} for {nodes} nodes, but nothing reads it",
                    variable=assign.name,
                    value=value,
                    nodes=job.node_count,
                )
                yield warn(
                    assign,
                    seen,
                    _("Use a number from 0 to {last}, and pass it to the launcher.", last=job.node_count - 1),
                )


def find_single_flagcx_role(context: LintContext) -> Iterator[Remark]:
    """Find scripts with only one of the two roles of a mixed-vendor job (FlagCX)."""
    for job in context.jobs:
        env = job.command.environment
        wanted = env.get("PADDLE_DISTRI_BACKEND")
        if (
            context.document
            and is_flagcx_role(job)
            and is_multi_node(job)
            and wanted is not None
            and wanted.text != "flagcx"
            and job.find_option("device")
        ):
            seen = _(
                "only one of two roles: PADDLE_DISTRI_BACKEND={backend}; an NVIDIA node needs flagcx and --device gpu",
                backend=wanted.text,
            )
            yield warn(wanted, seen, _("Write one script per role, and use each rank once."))

"""Which number each node is given: none, the same, one that is worked out elsewhere."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import last_option, number
from envcheck.core.lint.model import Remark, Script, Use, Word
from envcheck.core.lint.remarks import fail, graded, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.rules.training.multi_node import (
    alike,
    carried,
    from_outside,
    of_role,
    several,
    told_elsewhere,
    told_inside,
    way,
)

# On a batch script's own shell 0, whatever the task.
_TASKS = ("SLURM_NODEID", "SLURM_PROCID")
_OF_TASK = re.compile(r'"?\$\{?(?:' + "|".join(_TASKS) + r')\}?"?')


def _rendezvous(job: TrainingJob) -> bool:
    """torchrun's own meeting place gives out the ranks."""
    backend = job.says("rdzv_backend")
    return bool(backend and backend.value != "static") or bool(job.says("hostfile", "ips", "deepspeed_hostfile"))


def rank_missing(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if not several(job) or job.open or job.launcher.name in ("deepspeed", "python"):
            continue
        if _rendezvous(job) or told_elsewhere(context, job):
            continue
        if carried(job) and not (told_inside(context, job) or (alike(job) and job.launcher.rank_severe)):
            continue
        if job.says("standalone"):
            seen = f"--standalone is for one node, and here are {job.nodes}: each trains for itself"
            yield fail(job.told("nodes") or job, seen, "Take --standalone away, and name the first node's address.")
        elif job.told("rank") is None and not {"RANK", "NODE_RANK"} & set(job.command.environment):
            yield from _untold(job)


def _untold(job: TrainingJob) -> Iterator[Remark]:
    """Nothing here tells a node its number."""
    place, told = job.told("nodes") or job, way(job, "rank")
    if not told or (job.launcher.variables.get("rank") and from_outside(job, "rank")):
        return
    if job.program is None and job.launcher.program:
        do = "Write it here, or --machine_rank N beside --config_file."
        yield warn(place, f"{job.nodes} machines, and machine_rank is not here", do)
    elif not job.launcher.rank_severe:
        seen = f"{job.nodes} nodes without a rank: chance counts them, and pipeline stages and logs with them"
        yield warn(place, seen, f"{told}, and --host where a node's own name means loopback.")
    else:
        usual = job.launcher.rank_default or 0
        seen = f"{job.nodes} nodes, and none is told its number: each takes itself for node {usual}"
        own = f"{told.removesuffix('N').removeprefix('export ')}$SLURM_NODEID"
        do = f"srun bash -c '... {own} ...' in single quotes: each node's own number."
        yield fail(place, seen, do if job.command.name == "srun" else f"{told}, another on each node.")


def rank_fixed(context: LintContext) -> Iterator[Remark]:
    """A number that stands in the script is the same on each node that runs it; or there is no such node."""
    shown = {(job.nodes, number(told.plain)) for job in context.jobs if (told := job.told("rank")) is not None}
    early = sorted(use.start for script in context.scripts for use in _before_srun(script))
    for job in context.jobs:
        told = job.told("rank")
        worked_out = told is not None and (_within(told, early) or (alike(job) and _OF_TASK.fullmatch(told.raw)))
        if told is not None and job.nodes != 1 and worked_out:
            seen = "this is worked out before srun, by the first node's shell: each node takes itself for node 0"
            do = "srun bash -c '...' in single quotes: so each node's own shell works it out."
            yield graded(several(job), told, seen, do)
            continue
        rank, nodes = number(told.plain if told else None), job.nodes
        if told is None or rank is None or nodes is None or told.soft or rank < 0 or not job.trains:
            continue
        alone = not all((nodes, each) in shown for each in range(nodes))
        if nodes > 1 and rank < nodes and alike(job) and alone:
            seen = f"rank {rank} for each host that this is started on: {nodes} nodes take themselves for the same one"
            yield fail(told, seen, "Count the hosts, and hand each its own number.")
        elif rank >= nodes:
            yield fail(told, f"rank {rank} of {nodes} in all: they are counted from 0", f"0 to {nodes - 1}")
        elif all((nodes, each) in shown for each in range(nodes)):
            continue  # a start for each node stands here
        elif nodes > 1 and not carried(job) and not _of_file(job) and (context.document or not of_role(job)):
            seen = f"rank {rank} stands in the script: on another node it is wrong, and copied there both wait or die"
            yield warn(told, seen, 'Take it from outside: "${NODE_RANK:?}".')


def _before_srun(script: Script) -> Iterator[Use]:
    """The numbers of a task and a node, and their copies, among srun's words: those of the shell that calls it."""
    names = {*_TASKS, *(each.name for each in script.assigns if _OF_TASK.fullmatch(each.word.raw))}
    for command in script.commands:
        yield from (use for use in command.uses if use.name in names) if command.name == "srun" else ()


def _within(word: Word, places: Sequence[int]) -> bool:
    """Whether one of the places, which are in order, lies in the word."""
    at = bisect_left(places, word.start)
    return at < len(places) and places[at] < word.end


def _of_file(job: TrainingJob) -> bool:
    """accelerate's file has a rank, which is the first node's, and each node its own."""
    given = last_option(job.own, *job.launcher.options.get("rank", ()))
    return given is not None and given.key


def unused_rank(context: LintContext) -> Iterator[Remark]:
    """A variable named rank that nothing reads is told by shell.unused_variable; here, that it could not be."""
    for job in context.jobs:
        for assign in job.script.assigns:
            value = number(assign.word.plain)
            named = assign.name.lower() in ("rank", "node_rank") and assign.end < job.start and not assign.word.soft
            if (
                named
                and assign.word.raw.isdigit()
                and value is not None
                and job.nodes
                and value >= job.nodes
                and job.told("rank") is None
            ):
                seen = f"{assign.name} is {value}, of {job.nodes} in all, and nothing is told of it"
                yield warn(assign, seen, f"0 to {job.nodes - 1}, and hand it to the launcher.")


def one_role(context: LintContext) -> Iterator[Remark]:
    """Collectives of two vendors (FlagCX) want another script on each."""
    for job in context.jobs:
        env = job.command.environment
        wanted = env.get("PADDLE_DISTRI_BACKEND")
        if (
            context.document
            and of_role(job)
            and several(job)
            and wanted is not None
            and wanted.text != "flagcx"
            and job.option("device")
        ):
            seen = (
                f"one role of two: PADDLE_DISTRI_BACKEND={wanted.text}; an NVIDIA node wants flagcx, and --device gpu"
            )
            yield warn(wanted, seen, "A script for each role, ranks once each.")

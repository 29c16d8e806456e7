"""A job as a script for sbatch that a person can read; bash -n and shellcheck have nothing against it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from envcheck.job.command import folded, lines, shell
from installers.recipes.recipe_notes import grouped
from launch.backends.slurm.job import JobComponent, SlurmPlan

LOOK_MINUTES = 15  # for all gates of a node: each of doctor's questions has a limit of its own, the sum is below that
LAST_S = 3600  # the others may still write a checkpoint when the first launcher has ended


def text(plan: SlurmPlan) -> str:
    """The whole script."""
    parts = (_head, _options, _settings, _master, _looks, _start, _commands)
    return "\n\n".join(filter(None, ("\n".join(part(plan)) for part in parts))) + "\n"


def _comment(words: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(words, 110, break_long_words=False, break_on_hyphens=False)]


def _head(plan: SlurmPlan) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield from _comment(plan.title)
    yield "# Written by envcheck train --on slurm, which submits it.  By hand: make the folder of --output first."
    for note in dict.fromkeys(note for c in plan.components for note in (*c.command.caution, c.place.note) if note):
        yield from _comment(f"Note: {note}")


def _options(plan: SlurmPlan) -> Iterator[str]:
    for number, component in enumerate(plan.components):
        if number:
            yield "#SBATCH hetjob"
        yield from (f"#SBATCH {line}" for line in _sbatch(plan, component, first=number == 0))


def _sbatch(plan: SlurmPlan, component: JobComponent, first: bool) -> Iterator[str]:
    wish, where = plan.wish, component.place
    yield f"--job-name={plan.name}"
    yield f"--nodes={component.nodes}"
    yield "--ntasks-per-node=1"
    yield from (f"--gres={where.gres}",) if where.gres else ()
    yield "--exclusive"
    yield "--mem=0"  # all that a node has
    yield from (f"--partition={where.partition}",) if where.partition else ()
    yield from (f"--time={wish.time}",) if wish.time else ()
    yield from (f"--account={wish.account}",) if wish.account else ()
    if first:
        yield f'--output="{str(plan.run).replace("%", "%%")}/log/slurm.log"'
        yield "--open-mode=append"
        yield "--requeue" if wish.requeue_without_bad else "--no-requeue"
    yield from wish.sbatch


def _settings(plan: SlurmPlan) -> Iterator[str]:
    yield "# shellcheck disable=SC2016  # in single quotes: plain words, and what each node's own shell fills in"
    yield "set -euo pipefail"
    yield "# All nodes see this folder: looks, logs, records and checkpoints go there."
    yield f"export RUN={shlex.quote(str(plan.run))}"
    yield "export SLURM_EXPORT_ENV=ALL  # to the nodes, too, where sbatch has an --export of its own"
    yield f"envcheck={shlex.quote(plan.envcheck)}"
    for number, component in enumerate(plan.components):
        yield f"{_name(plan, number)}=("
        yield from (f"  {shlex.join(row)}" for row in grouped(component.words))
        yield ")"


def _name(plan: SlurmPlan, number: int) -> str:
    """The array with the options of a component."""
    return f"train_{plan.components[number].role}" if len(plan.components) > 1 else "train"


def _commands(plan: SlurmPlan) -> Iterator[str]:
    for component in plan.components:
        yield f"# What {component.role or 'each'} launcher starts, to read:"
        yield from (f"#   {row}" for row in folded([" ".join(map(shell, row)) for row in lines(component.command)]))


def _master(plan: SlurmPlan) -> Iterator[str]:
    if plan.nodes == 1:
        return
    yield "# The first node leads, by the address at which Slurm itself reaches it."
    yield 'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    yield """MASTER=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')"""
    yield 'export MASTER="${MASTER:-$first}"'


def _looks(plan: SlurmPlan) -> Iterator[str]:
    yield "# First all nodes walk the gates, each for itself: what a node saw stands in $LOOK/NODE.json."
    yield 'export LOOK="$RUN/look${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}"'
    yield 'mkdir -p -- "$LOOK"'
    yield f"""look='exec "$0" train --gates --json {_whose(plan)} "$@" > "$LOOK/$SLURMD_NODENAME.json"'"""
    yield from _srun(plan, "look", f"--time={LOOK_MINUTES} --kill-on-bad-exit=0", "|| true")
    if plan.wish.requeue_without_bad:
        yield "# Slurm ends this script when it puts the job back; what is begun then is finished."
        yield "trap '' TERM"
    verdict = ["--requeue-without-bad"] * plan.wish.requeue_without_bad + ["--drain"] * plan.wish.drain
    yield f'"$envcheck" slurm verdict "$LOOK" {" ".join(verdict)}'.rstrip() + " || exit 1"
    if plan.wish.requeue_without_bad:
        yield "trap - TERM"


def _whose(plan: SlurmPlan) -> str:
    """What differs from node to node: one task a node, so its number is the node's."""
    several = '--rank "$SLURM_PROCID" --master "$MASTER" ' if plan.nodes > 1 else ""
    return f'{several}--runs "$RUN/node-$SLURM_PROCID"'


def _start(plan: SlurmPlan) -> Iterator[str]:
    yield "# One launcher a node, on all of its cores; envcheck stays with each and writes its record."
    yield f"""launch='exec "$0" train {_whose(plan)} "$@"'"""
    yield from _srun(plan, "launch", f"--kill-on-bad-exit=0 --wait={LAST_S}")


def _srun(plan: SlurmPlan, what: str, options: str, after: str = "") -> Iterator[str]:
    """One step over all components."""
    parts = [
        f'{_group(plan, n)}--cpu-bind=none --label {options} bash -c "${what}" "$envcheck" "${{{_name(plan, n)}[@]}}"'
        for n in range(len(plan.components))
    ]
    yield " \\\n  : ".join(["srun " + parts[0], *parts[1:]]) + (f" {after}" if after else "")


def _group(plan: SlurmPlan, number: int) -> str:
    return f"--het-group={number} " if len(plan.components) > 1 else ""

"""Render a job as a batch script that people can read and that passes bash -n and shellcheck."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from envcheck.job.command import fold_lines, format_lines, shell_quote
from installers.recipes.value_notes import group_options
from launch.backends.slurm.job_plan import JobComponent, SlurmPlan
from launch.backends.slurm.node_verdict import RESTARTS

LOOK_MINUTES = 15  # for all preflight checks of a node; more than the sum of the time limits of doctor's commands
LAST_S = 3600  # after the first launcher has ended, the others may still write a checkpoint


def render_script(plan: SlurmPlan) -> str:
    """Return the text of the batch script."""
    parts = (
        _head_lines,
        _sbatch_lines,
        _settings_lines,
        _master_lines,
        _preflight_lines,
        _launch_lines,
        _command_lines,
    )
    return "\n\n".join(filter(None, ("\n".join(part(plan)) for part in parts))) + "\n"


def _wrap_comment(words: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(words, 110, break_long_words=False, break_on_hyphens=False)]


def _head_lines(plan: SlurmPlan) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield from _wrap_comment(plan.title)
    yield "# Written by envcheck train --on slurm. Before submitting it yourself, create the folder of --output."
    for note in dict.fromkeys(note for c in plan.components for note in (*c.command.caution, c.place.note) if note):
        yield from _wrap_comment(f"Note: {note}")


def _sbatch_lines(plan: SlurmPlan) -> Iterator[str]:
    for number, component in enumerate(plan.components):
        if number:
            yield "#SBATCH hetjob"
        yield from (f"#SBATCH {line}" for line in _component_options(plan, component, first=number == 0))


def _component_options(plan: SlurmPlan, component: JobComponent, first: bool) -> Iterator[str]:
    options, place = plan.options, component.place
    yield f"--job-name={plan.name}"
    yield f"--nodes={component.nodes}"
    yield "--ntasks-per-node=1"
    yield from (f"--gres={place.gres}",) if place.gres else ()
    yield "--exclusive"
    yield "--mem=0"  # all memory of the node
    yield from (f"--partition={place.partition}",) if place.partition else ()
    yield from (f"--time={options.time}",) if options.time else ()
    yield from (f"--account={options.account}",) if options.account else ()
    if first:
        yield f'--output="{str(plan.run).replace("%", "%%")}/log/slurm.log"'
        yield "--open-mode=append"
        yield "--requeue" if options.requeue_without_bad or options.restart else "--no-requeue"
    yield from options.sbatch


def _settings_lines(plan: SlurmPlan) -> Iterator[str]:
    yield "# shellcheck disable=SC2016  # single quotes: literal text, and variables that the nodes' shells expand"
    yield "set -euo pipefail"
    if restarts := plan.options.restart:
        yield "# Slurm requeues the job after a node failure; it starts again, unless its options resume it."
        yield f"if ((${{SLURM_RESTART_COUNT:-0}} > {max(restarts, RESTARTS * plan.options.requeue_without_bad)})); then"
        yield '  echo "envcheck: restarted $((SLURM_RESTART_COUNT - 1)) times already" >&2'
        yield "  exit 5"
        yield "fi"
    yield "# Shared by all nodes: preflight results, logs, records and checkpoints."
    yield f"export RUN={shlex.quote(str(plan.run))}"
    yield "export SLURM_EXPORT_ENV=ALL  # srun exports all variables even if sbatch has --export"
    yield f"envcheck={shlex.quote(plan.envcheck)}"
    for number, component in enumerate(plan.components):
        yield f"{_options_array_name(plan, number)}=("
        yield from (f"  {shlex.join(row)}" for row in group_options(component.words))
        yield ")"


def _options_array_name(plan: SlurmPlan, number: int) -> str:
    """Return the name of the shell array with the options of a component."""
    return f"train_{plan.components[number].role}" if len(plan.components) > 1 else "train"


def _command_lines(plan: SlurmPlan) -> Iterator[str]:
    for component in plan.components:
        yield f"# Command that {component.role or 'each'} launcher runs, for reference:"
        rows = fold_lines([" ".join(map(shell_quote, row)) for row in format_lines(component.command)])
        yield from (f"#   {line}" for row in rows for line in row.splitlines())  # a value may have several lines


def _master_lines(plan: SlurmPlan) -> Iterator[str]:
    if plan.nodes == 1:
        return
    yield "# The first node is the master; the address is the one that Slurm uses."
    yield 'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    yield """MASTER=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')"""
    yield 'export MASTER="${MASTER:-$first}"'


def _preflight_lines(plan: SlurmPlan) -> Iterator[str]:
    yield "# Preflight checks on all nodes; each node writes its result to $LOOK/NODE.json."
    yield 'export LOOK="$RUN/look${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}"'
    yield 'mkdir -p -- "$LOOK"'
    yield f"""look='exec "$0" train --gates --json {_node_options(plan)} "$@" > "$LOOK/$SLURMD_NODENAME.json"'"""
    yield from _srun_lines(plan, "look", f"--time={LOOK_MINUTES} --kill-on-bad-exit=0", "|| true")
    if plan.options.requeue_without_bad:
        yield "# Slurm sends TERM to this script when the job is requeued; the verdict must finish first."
        yield "trap '' TERM"
    verdict = ["--requeue-without-bad"] * plan.options.requeue_without_bad + ["--drain"] * plan.options.drain
    yield f'"$envcheck" slurm verdict "$LOOK" {" ".join(verdict)}'.rstrip() + " || exit 1"
    if plan.options.requeue_without_bad:
        yield "trap - TERM"


def _node_options(plan: SlurmPlan) -> str:
    """Return the options that differ between nodes; with one task per node, SLURM_PROCID is the rank of the node."""
    several = '--rank "$SLURM_PROCID" --master "$MASTER" ' if plan.nodes > 1 else ""
    return f'{several}--runs "$RUN/node-$SLURM_PROCID"'


def _launch_lines(plan: SlurmPlan) -> Iterator[str]:
    yield "# One launcher per node, on all of its cores; envcheck watches it and writes the record of the node."
    yield f"""launch='exec "$0" train {_node_options(plan)} "$@"'"""
    yield from _srun_lines(plan, "launch", f"--kill-on-bad-exit=0 --wait={LAST_S}")


def _srun_lines(plan: SlurmPlan, what: str, options: str, after: str = "") -> Iterator[str]:
    """Yield one srun command over all components."""
    parts = [
        f'{_het_group_option(plan, n)}--cpu-bind=none --label {options} bash -c "${what}" "$envcheck" '
        f'"${{{_options_array_name(plan, n)}[@]}}"'
        for n in range(len(plan.components))
    ]
    yield " \\\n  : ".join(["srun " + parts[0], *parts[1:]]) + (f" {after}" if after else "")


def _het_group_option(plan: SlurmPlan, number: int) -> str:
    return f"--het-group={number} " if len(plan.components) > 1 else ""

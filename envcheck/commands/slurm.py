"""envcheck slurm: what a site's Slurm starts by itself, and what a job's script calls."""

from __future__ import annotations

import click

from envcheck import places


@click.group(short_help="For Slurm: a prolog for the site, and what the scripts of train call.")
def slurm() -> None:
    """What Slurm starts by itself on a node, and what the scripts of `envcheck train --on slurm` call.

    \b
    envcheck slurm prolog                             as Prolog or HealthCheckProgram: is this node fit
    envcheck train --on slurm --model 300b --method sft --dry-run       the script of a job
    """


@slurm.command(short_help="In a job's script: are all of its nodes fit.")
@click.argument("folder")
@click.option("--requeue-without-bad", is_flag=True, help="Put the job back, and never again on the bad nodes.")
@click.option("--drain", is_flag=True, help="Take nodes that are broken out of use, with the reason.")
def verdict(folder: str, requeue_without_bad: bool, drain: bool) -> int:
    """Judge what the nodes of this job saw in themselves: FOLDER has a document of each.

    Exit code 0: all gates of all nodes are open. 1: some are closed; they are named.
    """
    from launch.slurm import verdict as judging

    return judging.verdict(places.given(folder, "FOLDER").absolute(), requeue_without_bad, drain)

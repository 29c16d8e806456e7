"""envcheck slurm: what a site's Slurm starts by itself, and what a job's script calls."""

from __future__ import annotations

import click

from envcheck.cli import options, usage_errors
from envcheck.core import paths


@click.group(cls=usage_errors.Group, short_help="For Slurm: a prolog for the site, and what the scripts of train call.")
@click.option("--json", is_flag=True, expose_value=False, hidden=True)  # a refusal as a document
def slurm() -> None:
    """What Slurm starts by itself on a node, and what the scripts of `envcheck train --on slurm` call.

    \b
    envcheck slurm prolog                             as Prolog or HealthCheckProgram: is this node fit
    envcheck train --on slurm --model 300b --method sft --dry-run       the script of a job
    """


@slurm.command(short_help="Is this node fit: for slurm.conf's Prolog or HealthCheckProgram.")
@options.device
@click.option("--config", type=click.Path(), help="Waivers, thresholds and checks of your own.")
@options.checks("--skip", help="Not this check or area; may be given again.")
@click.option("--alone", is_flag=True, help="Jobs have nodes for themselves: whoever holds a card is a fault.")
@click.option("--drain", is_flag=True, help="Take the node out of use, with the reason.")
@click.option("--strict", is_flag=True, help="What could not be told fails the node, too.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(0.1, 600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Of the whole look; then it could not be told.",
)
@click.option("--as-script", is_flag=True, help="Print the file to name in slurm.conf, with these options.")
def prolog(
    device: str,
    config: str | None,
    skip: tuple[str, ...],
    alone: bool,
    drain: bool,
    strict: bool,
    limit_s: float,
    as_script: bool,
) -> int:
    """Look at this node's driver and cards, as slurmd starts it; a line where something is wrong, else nothing.

    Exit code 0: well, or it could not be told. 1: not fit; slurmd drains a node whose Prolog says so.

    \b
    envcheck slurm prolog --as-script > /etc/slurm/envcheck-prolog        then Prolog=/etc/slurm/envcheck-prolog
    envcheck slurm prolog --drain --as-script > /etc/slurm/envcheck-health          for HealthCheckProgram
    """
    from launch.backends.slurm import prolog as looking

    if as_script:
        from launch.backends.slurm.session import program

        said = {"--device": device if device != "auto" else None, "--config": config, "--limit": f"{limit_s:g}"}
        words = [word for option, value in said.items() if value is not None for word in (option, value)]
        words += [word for name in skip for word in ("--skip", name)]
        words += [f"--{name}" for name, on in (("alone", alone), ("drain", drain), ("strict", strict)) if on]
        click.echo(looking.script(program(), words), nl=False)
        return 0
    return looking.prolog(looking.PrologTerms(device, config, skip, alone, drain, limit_s, strict))


@slurm.command(short_help="In a job's script: are all of its nodes fit.")
@click.argument("folder")
@click.option("--requeue-without-bad", is_flag=True, help="Put the job back, and never again on the bad nodes.")
@click.option("--drain", is_flag=True, help="Take nodes that are broken out of use, with the reason.")
def verdict(folder: str, requeue_without_bad: bool, drain: bool) -> int:
    """Judge what the nodes of this job saw in themselves: FOLDER has a document of each.

    Exit code 0: all gates of all nodes are open. 1: some are closed; they are named.
    """
    from launch.backends.slurm import verdict as judging

    return judging.verdict(paths.given(folder, "FOLDER").absolute(), requeue_without_bad, drain)

"""envcheck slurm: what a site's Slurm starts by itself, and what a job's script calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from envcheck.cli import options, usage_errors
from envcheck.cli.documents import print_document
from envcheck.cli.requests import command, convert_request, flag, option
from envcheck.core import errors, paths


@click.group(cls=usage_errors.Group, short_help="For Slurm: a prolog for the site, and what the scripts of train call.")
@click.option("--json", is_flag=True, expose_value=False, hidden=True)  # a refusal as a document
def slurm() -> None:
    """What Slurm starts by itself on a node, and what the scripts of `envcheck train --on slurm` call.

    \b
    envcheck slurm prolog                             as Prolog or HealthCheckProgram: is this node fit
    envcheck train --on slurm --model 300b --method sft --dry-run       the script of a job
    """


@dataclass(frozen=True, kw_only=True)
class PrologOptions(options.JsonOption, options.DeviceOption):
    config: str | None = option("--config", type=click.Path(), help="Waivers, thresholds and checks of your own.")
    skip: tuple[str, ...] = options.checks_option("--skip", help="Not this check or area; may be given again.")
    alone: bool = flag("--alone", help="Jobs have nodes for themselves: whoever holds a card is a fault.")
    drain: bool = flag("--drain", help="Take the node out of use, with the reason.")
    strict: bool = flag("--strict", help="What could not be told fails the node, too.")
    limit_s: float = option(
        "--limit", type=click.FloatRange(0.1, 600), default=30, show_default=True, metavar="SECONDS",
        help="Of the whole look; then it could not be told.",
    )  # fmt: skip
    as_script: bool = flag("--as-script", help="Print the file to name in slurm.conf, with these options.")

    @property
    def words(self) -> list[str]:
        """The options again, for the script."""
        said = {"--device": self.device if self.device != "auto" else None, "--config": self.config}
        said["--limit"] = f"{self.limit_s:g}"
        words = [word for name, value in said.items() if value is not None for word in (name, value)]
        words += [word for name in self.skip for word in ("--skip", name)]
        return words + [f"--{name}" for name in ("alone", "drain", "strict") if getattr(self, name)]


@command(PrologOptions, group=slurm, short_help="Is this node fit: for slurm.conf's Prolog or HealthCheckProgram.")
def prolog(request: PrologOptions) -> int:
    """Look at this node's driver and cards, as slurmd starts it; a line where something is wrong, else nothing.

    Exit code 0: well, or it could not be told. 1: not fit; slurmd drains a node whose Prolog says so.

    \b
    envcheck slurm prolog --as-script > /etc/slurm/envcheck-prolog        then Prolog=/etc/slurm/envcheck-prolog
    envcheck slurm prolog --drain --as-script > /etc/slurm/envcheck-health          for HealthCheckProgram
    """
    from launch.backends.slurm import prolog as looking

    if request.as_script:
        from launch.backends.slurm.session import program

        script = looking.script(program(), request.words)
        print_document({"script": script}) if request.as_json else click.echo(script, nl=False)
        return 0
    health = looking.prolog(convert_request(looking.PrologTerms, request, untold=request.strict))
    if request.as_json:
        print_document({**asdict(health), **errors.outcome(health.exit_code, health.reason)})
    return health.exit_code


@slurm.command(short_help="In a job's script: are all of its nodes fit.")
@click.argument("folder")
@click.option("--requeue-without-bad", is_flag=True, help="Put the job back, and never again on the bad nodes.")
@click.option("--drain", is_flag=True, help="Take nodes that are broken out of use, with the reason.")
@options.json_output
def verdict(folder: str, requeue_without_bad: bool, drain: bool, as_json: bool) -> int:
    """Judge what the nodes of this job saw in themselves: FOLDER has a document of each.

    Exit code 0: all gates of all nodes are open. 1: some are closed; they are named.
    """
    from launch.backends.slurm import node_reports
    from launch.backends.slurm import verdict as judging

    found = judging.verdict(paths.given(folder, "FOLDER").absolute(), requeue_without_bad, drain)
    code = errors.UNFIT if found.closed else errors.FIT
    if as_json:
        why = f"{len(found.closed)} of {len(found.nodes)} nodes have closed gates"
        print_document({**node_reports.values(found), **errors.outcome(code, why)})
    return code

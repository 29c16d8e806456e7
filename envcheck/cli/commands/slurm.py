"""envcheck slurm: commands for Slurm's prolog and for job scripts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from envcheck.cli import options, usage_errors
from envcheck.cli.json_document import print_document
from envcheck.cli.number_types import Seconds
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import command, convert_request, flag, option
from envcheck.core import errors, paths
from envcheck.core.messages import _


@click.group(cls=usage_errors.SuggestingGroup, short_help="Check nodes in Slurm: prolog, health check, job scripts.")
@click.option("--json", is_flag=True, expose_value=False, hidden=True)  # errors are printed as a document too
def slurm() -> None:
    """Commands that Slurm runs on a node, and that the scripts of `envcheck train --on slurm` call.

    \b
    envcheck slurm prolog    check this node, as Prolog or HealthCheckProgram
    envcheck train --on slurm --model 300b --method sft --device npu --dry-run
    """


@dataclass(frozen=True, kw_only=True)
class PrologOptions(options.JsonOption, options.DeviceOption):
    config: str | None = options.config_option(OptionGroup.CHECKS)
    skip: tuple[str, ...] = options.skip_option()
    alone: bool = flag("--alone", help="Fail if another process uses a device.")
    drain: bool = flag("--drain", help="Drain bad nodes in Slurm, with the reason.")
    untold: bool = flag("--fail-on-unknown", help="Fail if a check could not run.")
    limit_s: float = option(
        "--timeout", type=Seconds(0.1, 600), default=6, show_default=True, metavar="SECONDS",
        help="Time limit for all checks.",
    )  # fmt: skip
    as_script: bool = options.as_script_flag()

    @property
    def script_options(self) -> list[str]:
        """Return the options again, for the script."""
        said = {"--device": self.device if self.device != "auto" else None, "--config": self.config}
        said["--timeout"] = f"{self.limit_s:g}"
        words = [word for name, value in said.items() if value is not None for word in (name, value)]
        words += [word for name in self.skip for word in ("--skip", name)]
        flags = {"--alone": self.alone, "--drain": self.drain, "--fail-on-unknown": self.untold}
        return words + [word for word, is_given in flags.items() if is_given]


@command(PrologOptions, group=slurm, short_help="Check this node, as Prolog or HealthCheckProgram.")
def prolog(request: PrologOptions) -> int:
    """Check the driver and the devices of this node when slurmd starts it; print one line if something is wrong.

    Exit code 0: healthy, or unknown. 1: not healthy; slurmd drains a node whose Prolog fails. 2: wrong options, which
    the script of --as-script does not pass on to slurmd.

    \b
    envcheck slurm prolog --as-script > /etc/slurm/envcheck-prolog
    envcheck slurm prolog --drain --as-script > /etc/slurm/envcheck-health

    Name the first file as Prolog in slurm.conf, the second as HealthCheckProgram.
    """
    from launch.backends.slurm import prolog as looking

    terms = convert_request(looking.PrologTerms, request)
    if request.as_script:
        looking.check_terms(terms)
        from launch.backends.slurm.session import find_program

        script = looking.render_prolog_script(find_program(), request.script_options)
        print_document({"script": script}) if request.as_json else click.echo(script, nl=False)
        return 0
    health = looking.check_node_health(terms)
    if request.as_json:
        print_document({**asdict(health), **errors.outcome_fields(health.exit_code, health.reason)})
    return health.exit_code


@slurm.command(short_help="Combine the check results of all nodes of a job.")
@click.argument("folder", metavar="FOLDER")
@click.option("--requeue-without-bad", is_flag=True, help="Requeue the job without the failed nodes.")
@click.option("--drain", is_flag=True, help="Drain bad nodes in Slurm, with the reason.")
@options.json_option
def verdict(folder: str, requeue_without_bad: bool, drain: bool, as_json: bool) -> int:
    """Combine the preflight results of all nodes of this job: FOLDER has one document per node.

    Exit code 0: all checks of all nodes passed. 1: some failed; they are listed.
    """
    from launch.backends.slurm import node_reports
    from launch.backends.slurm import node_verdict as judging

    found = judging.judge_job_nodes(paths.parse_path(folder, "FOLDER").absolute(), requeue_without_bad, drain)
    code = errors.CHECK_FAILED if found.closed else errors.SUCCESS
    if as_json:
        why = _(
            "preflight checks failed on {closed} of {nodes} nodes", closed=len(found.closed), nodes=len(found.nodes)
        )
        print_document({**node_reports.list_verdict_values(found), **errors.outcome_fields(code, why)})
    return code

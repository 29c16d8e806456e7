"""envcheck train: start a training run after preflight checks, and supervise it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from envcheck.cli import backend_options, options, repeat_command, site_settings
from envcheck.cli.job_argument import SingleValueJobCommand, job_argument, read_own_job
from envcheck.cli.number_types import Seconds, WholeNumber, WholeSeconds
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import command, convert_request, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.language import translate
from envcheck.core.lint.own_job import OwnJob
from envcheck.core.messages import _
from envcheck.fleet import argv as fleet_words
from envcheck.settings.site_access import NO_SITE
from launch.runs import backends

CARRIED = ("recipes",)  # copied to other hosts; all other paths are on the hosts
OF_EACH = (
    "master",
    "runs",
    "as_json",
    "gates",
    "dry_run",
    "restart",
    "min_nodes",
)  # options of the whole job, which each host gets separately


@dataclass(frozen=True, kw_only=True)
class TrainOptions(
    options.JsonOption, options.StartOptions, options.DevicesOption, options.VariantOptions, options.RecipeOption,
    options.JobOptions,
):  # fmt: skip
    """Training on this machine or on several hosts; `own` are the values of the backend's options."""

    own: Mapping[str, Any]
    cards: int | None = option(
        "--cards-per-node", group=OptionGroup.JOB, is_common=True, type=WholeNumber(1, 1024), metavar="COUNT",
        help="Number of devices per node.",
    )  # fmt: skip
    master: str | None = option(
        "--master", group=OptionGroup.HOSTS, is_common=True, metavar="HOST[:PORT]", help="Address of node 0."
    )
    data: Path | None = options.path_option(
        "--data", group=OptionGroup.JOB, is_common=True, metavar="FILE", help="Training data."
    )
    steps: int | None = option(
        "--steps", group=OptionGroup.JOB, is_common=True, type=WholeNumber(1), metavar="COUNT",
        help="Number of steps (default: the recipe's).",
    )  # fmt: skip
    port: int | None = option(
        "--port", group=OptionGroup.HOSTS, type=WholeNumber(1, 65535), metavar="PORT", help="Port of the launcher."
    )
    deadline_s: int | None = option(
        "--deadline", group=OptionGroup.RUN, type=WholeSeconds(1, 10**9), metavar="SECONDS",
        help="Stop the run after this time.",
    )  # fmt: skip
    no_stop: tuple[str, ...] = option(
        "--no-stop", group=OptionGroup.RUN, multiple=True, metavar="RULE",
        help="Disable a stop rule: cpu, loss, stalled, launcher, health, memory.",
    )  # fmt: skip
    stop: tuple[str, ...] = option(
        "--stop", group=OptionGroup.RUN, multiple=True, metavar="RULE",
        help="End on a warning: flat, uniform, gradients, ...",
    )  # fmt: skip
    limits: tuple[str, ...] = option(
        "--limit", group=OptionGroup.RUN, multiple=True, metavar="RULE.NAME=VALUE",
        help="Change a stop rule limit: stalled.seconds=1800.",
    )  # fmt: skip
    gather_s: float = option(
        "--gather", group=OptionGroup.HOSTS, type=Seconds(1, 86400), default=600, show_default=True,
        metavar="SECONDS", help="Time limit for all nodes to join.",
    )  # fmt: skip
    restart: int = option(
        "--restart", group=OptionGroup.RUN, type=WholeNumber(0, 100), default=0, metavar="COUNT",
        help="Restart after faults; slurm, k8s: after lost nodes.",
    )  # fmt: skip
    gates: bool = flag(
        "--gates", group=OptionGroup.PREFLIGHT, is_common=True, help="Run the preflight checks and exit.",
        excludes=("dry_run", "as_script", "write", "provision", "detach"),
    )  # fmt: skip
    fail_on_unknown: bool = flag(
        "--fail-on-unknown", group=OptionGroup.PREFLIGHT, help="Fail if a check could not run."
    )
    extra: tuple[str, ...] = job_argument(metavar="[FILE] [-- COMMAND | PROGRAM_OPTIONS]")


@dataclass(frozen=True, kw_only=True)
class HostsTrainOptions(options.HostsOptions, TrainOptions):
    """Training with one node on each of several hosts."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = options.OVER_SSH
    host_timeout_s: float = options.host_timeout_option(300)
    min_nodes: int | None = option(
        "--min-nodes", group=OptionGroup.HOSTS, type=WholeNumber(1, 10_000), metavar="COUNT",
        help="Least number of hosts that a restart continues on.", needs=("restart",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NodeTrainOptions(options.YesOption, TrainOptions):
    """Training on this machine, alone or as one of the nodes, or through a backend."""

    nnodes: int | None = option(
        "--nnodes", group=OptionGroup.HOSTS, is_common=True, type=WholeNumber(1, 10_000), metavar="COUNT",
        help="Number of nodes; run this command on each.",
    )  # fmt: skip
    rank: int | None = option(
        "--rank", group=OptionGroup.HOSTS, is_common=True, type=WholeNumber(0), metavar="RANK",
        help="Rank of this node; 0 is the master.",
    )  # fmt: skip
    host: str | None = option(
        "--host", group=OptionGroup.HOSTS, metavar="HOST", help="Address of this node for the other nodes."
    )
    provision: bool = flag(
        "--provision", group=OptionGroup.MACHINE, is_common=True, help="Install what is missing first.",
        hint=_("use envcheck provision --hosts instead"),
    )  # fmt: skip
    config: str | None = options.config_option(OptionGroup.MACHINE, needs=("provision",))
    dashboard: bool = flag(
        "--dashboard", group=OptionGroup.RUN, is_common=True, help="Show devices, loss curve and log on a full screen.",
        excludes=("detach",),
    )  # fmt: skip
    detach: bool = flag(
        "--detach", group=OptionGroup.RUN, is_common=True, help="Run in the background; see 'envcheck runs'."
    )
    on_event: tuple[str, ...] = option(
        "--on-event", group=OptionGroup.RUN, multiple=True, metavar="COMMAND",
        help="Run COMMAND with each event as JSON on its input.",
    )  # fmt: skip
    webhook: tuple[str, ...] = option(
        "--webhook", group=OptionGroup.RUN, multiple=True, metavar="URL", help="Send each event as JSON to this URL."
    )  # fmt: skip
    metrics_file: Path | None = options.path_option(
        "--metrics-file", group=OptionGroup.RUN, metavar="FILE.prom", help="Write metrics of the run for Prometheus."
    )
    resume: str | None = option(
        "--resume", group=OptionGroup.RUN, is_common=True, metavar="RUN",
        help="Resume a run, or 'latest', from its last checkpoint.",
    )  # fmt: skip
    as_script: bool = options.as_script_flag(excludes=("write",))
    write: Path | None = options.path_option(
        "--write", group=OptionGroup.OUTPUT, metavar="DIR",
        help="Write script, options and configuration and exit.",
        excludes=("as_json",), hint=_("remove one of them; --dry-run --json contains all results"),
    )  # fmt: skip
    on: str = option(
        "--on", group=OptionGroup.RUN, is_common=True,
        type=click.Choice(backend_options.list_names(), case_sensitive=False),
        default=backends.LOCAL, show_default=True, metavar="BACKEND", help="Where to run: local, slurm or k8s.",
    )  # fmt: skip


@command(
    HostsTrainOptions,
    NodeTrainOptions,
    cls=SingleValueJobCommand,
    more=backend_options.list_parameters(),
    short_help="Start a training run after preflight checks, and supervise it.",
)
def train(request: HostsTrainOptions | NodeTrainOptions) -> int:
    """Start a fine-tuning run after preflight checks, and supervise it.

    If a preflight check fails, training does not start: exit code 1, and the fix is shown.  Ctrl-C stops all processes.
    The folder runs/<time>-<recipe>/ receives run.json, loss.svg, logs and checkpoints.

    \b
    envcheck train --model tiny --method lora --device cpu --provision --yes
    envcheck train my.yaml                                        start your own job
    envcheck train -- torchrun --nproc_per_node 8 train.py
    envcheck train --model 300b --method sft --device npu --dry-run    show the command
    envcheck train --model 21b --method lora --as-script > run.sh
    envcheck train --recipe qwen-7b-npu-swift --set lora_rank=16 -- --bf16 true
    envcheck train --recipe qwen-7b-npu-swift --method lora --devices auto
    envcheck train --model 300b --method sft --device npu --rank 3 --master node1
    envcheck train --model 300b --method sft --device npu --hosts node[01-08]
    envcheck train --model 300b --method sft --device npu --on slurm
    envcheck train --resume latest
    """
    own_job = _read_own_job(request)
    if request.model is None and request.recipe is None and own_job is None and getattr(request, "resume", None):
        return repeat_command.resume_run(train, str(getattr(request, "resume", None)))
    if (
        request.model is None and request.recipe is None and own_job is None
    ):  # a job must be named, even if only one matches: it takes hours
        next_step = _(
            "for example: envcheck train --model tiny --method lora --provision; other recipes: envcheck recipes; "
            "choose one for this folder: envcheck init"
        )
        raise UsageError(_("no model or recipe specified"), next_step)
    if isinstance(request, HostsTrainOptions):
        return _train_hosts(request)
    from launch import local_run, preview
    from launch.targets.train_request import TrainRequest

    own, write = backend_options.choose_own_options(request.on, request.own), request.write
    site = site_settings.read_site(request.config) if request.provision else NO_SITE
    wish = convert_request(TrainRequest, request, own_job=own_job, site=site, **({"extra": ()} if own_job else {}))
    if request.dry_run and write is not None:
        click.echo(translate(_("envcheck: --dry-run does not write to {write}", write=write)), err=True)
        write = None
    if request.on != backends.LOCAL or request.dry_run or request.as_script or write is not None:
        preview.check_early(wish)
    if request.on != backends.LOCAL and request.resume is not None:
        raise UsageError(
            _("--resume works only on this machine, not with --on {backend}", backend=request.on),
            _("pass the framework's own option after --"),
        )
    if (backend := backends.load_session(request.on)) is not None:
        return backend.train(wish, own, backends.PreviewOptions(request.dry_run, request.as_script, write))
    if write is not None:
        from launch import job_files

        click.echo("\n".join(job_files.write_job(wish, write)))
        return 0
    if request.as_script:
        click.echo(preview.preview_script(wish), nl=False)
        return 0
    return preview.preview_run(wish) if request.dry_run else local_run.train_here(wish)


# Options that change a recipe's command, install its software, or write it: an own job's command is never changed.
OF_RECIPES = (
    "settings", "installed", "cards", "data", "steps", "port", "nnodes", "rank", "master", "host", "provision", "into",
    "as_script", "write", "recipes",
)  # fmt: skip


def _read_own_job(request: HostsTrainOptions | NodeTrainOptions) -> OwnJob | None:
    """Return the user's own job; UsageError for one on other machines."""
    found = read_own_job(request.extra, request.given, OF_RECIPES)
    elsewhere: list[str] = [name for name in ("hosts", "hostfile") if name in request.given]
    if isinstance(request, NodeTrainOptions) and request.on != backends.LOCAL:
        elsewhere = ["on"]
    if found is not None and elsewhere:
        raise UsageError(
            _("a job of your own runs on this machine only, not with --{option}", option=elsewhere[0]),
            _("write a recipe of it with `envcheck recipes create`, and start that with --recipes")
            if elsewhere[0] == "on" or found.nodes > 1
            else _("start it on the machine, or give it a command for several nodes first"),
        )
    return found


def _train_hosts(request: HostsTrainOptions) -> int:
    from envcheck.payload import attachments
    from launch.backends.ssh import train_hosts
    from launch.targets.train_request import TrainRequest

    if request.dry_run and request.as_json:
        raise UsageError(_("--dry-run prints the command of each host, not a JSON document"), _("remove --json"))
    backend_options.choose_own_options(backends.LOCAL, request.own)
    hosts, wish = fleet_words.list_hosts(request), convert_request(TrainRequest, request)
    train_hosts.check_job(wish, hosts)
    given = fleet_words.collect_given(OF_EACH)
    carried = {name: given[name] for name in CARRIED if name in given}
    words, said = fleet_words.build_words(given, carried)
    return train_hosts.train_on_hosts(
        convert_request(
            train_hosts.NodesRequest, request, hosts=hosts, words=words, said=said,
            carried=attachments.pack_files(carried), master=request.master or "", runs=str(request.runs),
        )
    )  # fmt: skip

"""envcheck train: start a training run after preflight checks, and supervise it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from envcheck.cli import backend_options, options, usage_errors
from envcheck.cli.number_types import Seconds, WholeNumber, WholeSeconds
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import argument, command, convert_request, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.fleet import argv as fleet_words
from launch.runs import backends

CARRIED = ("recipes",)  # copied to other hosts; all other paths are on the hosts
OF_EACH = ("master", "runs", "as_json", "gates", "dry_run")  # options of the whole job, which each host gets separately


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
    gates: bool = flag(
        "--gates", group=OptionGroup.PREFLIGHT, is_common=True, help="Run the preflight checks and exit.",
        excludes=("dry_run", "as_script", "write", "provision", "detach"),
    )  # fmt: skip
    extra: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM_OPTIONS]")


@dataclass(frozen=True, kw_only=True)
class HostsTrainOptions(options.HostsOptions, TrainOptions):
    """Training with one node on each of several hosts."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = options.OVER_SSH


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
    dashboard: bool = flag(
        "--dashboard", group=OptionGroup.RUN, is_common=True, help="Show devices, loss curve and log on a full screen.",
        excludes=("detach",),
    )  # fmt: skip
    detach: bool = flag(
        "--detach", group=OptionGroup.RUN, is_common=True, help="Run in the background; see 'envcheck runs'."
    )
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
    cls=usage_errors.SingleValueCommand,
    more=backend_options.list_parameters(),
    short_help="Start a training run after preflight checks, and supervise it.",
)
def train(request: HostsTrainOptions | NodeTrainOptions) -> int:
    """Start a fine-tuning run after preflight checks, and supervise it.

    If a preflight check fails, training does not start: exit code 1, and the fix is shown.  Ctrl-C stops all processes.
    The folder runs/<time>-<recipe>/ receives run.json, loss.svg, logs and checkpoints.

    \b
    envcheck train --model tiny --method lora --device cpu --provision --yes
    envcheck train --model 300b --method sft --device npu --dry-run    show the command
    envcheck train --model 21b --method lora --as-script > run.sh
    envcheck train --recipe qwen-7b-npu-swift --set lora_rank=16 -- --bf16 true
    envcheck train --recipe qwen-7b-npu-swift --method lora --devices auto
    envcheck train --model 300b --method sft --device npu --rank 3 --master node1
    envcheck train --model 300b --method sft --device npu --hosts node[01-08]
    envcheck train --model 300b --method sft --device npu --on slurm
    """
    if (
        request.model is None and request.recipe is None
    ):  # a job must be named, even if only one matches: it takes hours
        next_step = _("Add --model NAME or --recipe NAME; envcheck recipes lists them.")
        raise UsageError(_("no model or recipe specified"), next_step)
    if isinstance(request, HostsTrainOptions):
        return _train_hosts(request)
    from launch import local_run, preview
    from launch.targets.train_request import TrainRequest

    own, write = backend_options.choose_own_options(request.on, request.own), request.write
    wish = convert_request(TrainRequest, request)
    if request.dry_run and write is not None:
        click.echo(translate(_("envcheck: --dry-run does not write to {write}", write=write)), err=True)
        write = None
    if request.on != backends.LOCAL or request.dry_run or request.as_script or write is not None:
        preview.check_early(wish)
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


def _refuse_unknown_job(request: HostsTrainOptions) -> None:
    """Raise UsageError for a job that no recipe has."""
    from installers.recipes import catalogue

    recipes = catalogue.load_all(request.recipes)
    recipes = (catalogue.find_recipe(recipes, request.recipe),) if request.recipe else recipes
    of_it = catalogue.JobShape(request.variant, request.node_role)
    catalogue.list_possible(recipes, request.model, request.method, request.device, request.framework, of_it)


def _train_hosts(request: HostsTrainOptions) -> int:
    from envcheck.payload import attachments
    from launch.backends.ssh import train_hosts

    if request.dry_run and request.as_json:
        raise UsageError(_("--dry-run prints the command of each host, not a JSON document"), _("remove --json"))
    backend_options.choose_own_options(backends.LOCAL, request.own)
    _refuse_unknown_job(request)
    given = fleet_words.collect_given(OF_EACH)
    carried = {name: given[name] for name in CARRIED if name in given}
    words, said = fleet_words.build_words(given, carried)
    return train_hosts.train_on_hosts(
        convert_request(
            train_hosts.NodesRequest, request, hosts=fleet_words.list_hosts(request), words=words, said=said,
            carried=attachments.pack_files(carried), master=request.master or "", runs=str(request.runs),
        )
    )  # fmt: skip

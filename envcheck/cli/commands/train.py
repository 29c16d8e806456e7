"""envcheck train: start a fine-tuning run, if the gates allow it, and stay with it to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from envcheck.cli import backend_options, options, usage_errors
from envcheck.cli.requests import argument, command, convert_request, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.language import say
from envcheck.fleet import argv as fleet_words
from launch.runs import backends

CARRIED = ("recipes",)  # goes along to other hosts; all other paths are theirs
OF_EACH = ("master", "runs", "as_json", "gates", "dry_run")  # said of the whole, and to each host in its own words


@dataclass(frozen=True, kw_only=True)
class TrainOptions(
    options.JsonOption, options.StartOptions, options.VariantOptions, options.RecipeOption, options.JobOptions
):
    """Of a training on this machine and of one on several hosts; `own` are the values of the backends' options."""

    own: Mapping[str, Any]
    cards: int | None = option("--cards", type=click.IntRange(1, 1024), metavar="N", help="So many cards of each node.")
    master: str | None = option("--master", metavar="HOST[:PORT]", help="The address of node 0 as the others reach it.")
    data: Path | None = options.path_option(
        "--data", metavar="FILE", help="Train on this; the tiny model takes any UTF-8 text."
    )
    steps: int | None = option("--steps", type=click.IntRange(1), metavar="N", help="So many steps, not the recipe's.")
    port: int | None = option(
        "--port", type=click.IntRange(1, 65535), metavar="N", help="The launcher's port, where the recipe has one."
    )
    deadline_s: int | None = option(
        "--deadline", type=click.IntRange(1, 10**9), metavar="SECONDS", help="End the run after so long."
    )
    no_stop: tuple[str, ...] = option(
        "--no-stop", multiple=True, metavar="RULE",
        help="Do not end it by: cpu, loss, stalled, launcher, health, memory.",
    )  # fmt: skip
    limits: tuple[str, ...] = option(
        "--limit", multiple=True, metavar="RULE.NAME=N", help="Another limit of such a rule."
    )
    gather_s: float = option(
        "--gather", type=click.FloatRange(1, 86400), default=600, show_default=True, metavar="SECONDS",
        help="How long the nodes wait for each other.",
    )  # fmt: skip
    gates: bool = flag(
        "--gates", help="Only walk the gates: say what each saw, and start nothing.",
        excludes=("dry_run", "as_script", "write", "provision", "detach"),
    )  # fmt: skip
    extra: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF THE TRAINING]")


@dataclass(frozen=True, kw_only=True)
class HostsTrainOptions(options.HostsOptions, TrainOptions):
    """A node of the job on each of other machines."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = options.OVER_SSH


@dataclass(frozen=True, kw_only=True)
class NodeTrainOptions(TrainOptions):
    """This machine, by itself or as one of the nodes, or the site's own engine."""

    nnodes: int | None = option(
        "--nnodes", type=click.IntRange(1, 10_000), metavar="N", help="So many nodes, each started by itself."
    )
    rank: int | None = option(
        "--rank", type=click.IntRange(0), metavar="N", help="The number of this node, 0 for the master."
    )
    host: str | None = option("--host", metavar="HOST", help="The address of this node as the others reach it.")
    provision: bool = flag(
        "--provision", help="Install what is missing first.", hint="envcheck provision --hosts does that"
    )
    watch: bool = flag("--watch", help="A full screen: cards, loss curve, the log's end.", excludes=("detach",))
    detach: bool = flag("--detach", help="Go on without this terminal; `envcheck runs` lists, follows, stops it.")
    as_script: bool = flag("--as-script", help="Print a shell script, and stop.", excludes=("write",))
    write: Path | None = options.path_option(
        "--write", metavar="DIR", help="Write script, options and configuration there, and stop.",
        excludes=("as_json",), hint="leave one of them out; --dry-run --json holds all of them",
    )  # fmt: skip
    on: str = option(
        "--on", type=click.Choice(backend_options.names()), default=backends.LOCAL, show_default=True,
        help="Who runs it: this machine itself, or the engine that the site has.",
    )  # fmt: skip
    yes: bool = flag("--yes", "-y", help="Do not ask.", order=options.ASKING)


@command(
    HostsTrainOptions,
    NodeTrainOptions,
    cls=usage_errors.Once,
    more=backend_options.parameters(),
    short_help="Start a run, but only if it will run; watch it.",
)
def train(request: HostsTrainOptions | NodeTrainOptions) -> int:
    """Start a fine-tuning run, but only if it will run.

    The gates come first: a closed one stops with exit code 1 and says what would open it.  Then one line of progress;
    Ctrl-C ends all processes.  What is left: runs/<time>-<recipe>/ with run.json, loss.svg, the logs and checkpoints.

    \b
    envcheck train --model tiny --method lora --device cpu --provision --yes   a real run on any machine, half a minute
    envcheck train --model tiny --method lora --device cpu --steps 5           the environment is there already
    envcheck train --model 300b --method sft --device npu --dry-run            only show environment and command
    envcheck train --model 300b --method sft --rank 3 --master 192.0.2.1 --host 192.0.2.4     one of several nodes
    envcheck train --model 21b --method lora --device npu --as-script > run.sh                the same as a shell script
    envcheck train --model qwen-7b --method lora --variant zero3 --framework swift --set lora_rank=16 -- --bf16 true
    envcheck train --model 300b --method sft --hosts node[01-08]    each node its rank, started and watched over ssh
    envcheck train --model 300b --method sft --on slurm --time 8:00:00    a job of the site's Slurm, followed to its end
    """
    if request.model is None and request.recipe is None:  # that one job alone fits is no answer: it takes hours
        next_step = "say --model NAME, or --recipe NAME; envcheck recipes lists them"
        raise UsageError("what to train was not said", next_step)
    if isinstance(request, HostsTrainOptions):
        return _train_hosts(request)
    from launch import preview, session
    from launch.targets.request import TrainRequest

    own, write = backend_options.choose_own(request.on, request.own), request.write
    wish = convert_request(TrainRequest, request)
    if request.dry_run and write is not None:
        click.echo(say(f"envcheck: --dry-run only shows: nothing is written to {write}"), err=True)
        write = None
    if request.on != backends.LOCAL or request.dry_run or request.as_script or write is not None:
        preview.sound(wish)
    if (backend := backends.load_session(request.on)) is not None:
        return backend.train(wish, own, backends.PreviewOptions(request.dry_run, request.as_script, write))
    if write is not None:
        from launch import written

        click.echo("\n".join(written.write(wish, write)))
        return 0
    if request.as_script:
        click.echo(preview.preview_script(wish), nl=False)
        return 0
    return preview.preview(wish) if request.dry_run else session.train(wish)


def _refuse_unknown(request: HostsTrainOptions) -> None:
    """A job that no recipe has is on no host either."""
    from installers.recipes import catalogue

    recipes = catalogue.load_all(request.recipes)
    recipes = (catalogue.by_name(recipes, request.recipe),) if request.recipe else recipes
    of_it = catalogue.Shape(request.variant, request.node_role)
    catalogue.possible(recipes, request.model, request.method, request.device, request.framework, of_it)


def _train_hosts(request: HostsTrainOptions) -> int:
    from envcheck.payload import attachments
    from launch.backends.ssh import session

    if request.dry_run and request.as_json:
        raise UsageError("--dry-run prints the command of each host, and no document", "leave --json out")
    backend_options.choose_own(backends.LOCAL, request.own)
    _refuse_unknown(request)
    given = fleet_words.written(OF_EACH)
    carried = {name: given[name] for name in CARRIED if name in given}
    words, said = fleet_words.words(given, carried)
    return session.train(
        convert_request(
            session.NodesRequest, request, hosts=fleet_words.hosts(request), words=words, said=said,
            carried=attachments.packed(carried), master=request.master or "", runs=str(request.runs),
        )
    )  # fmt: skip

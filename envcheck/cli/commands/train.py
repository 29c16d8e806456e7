"""envcheck train: start a fine-tuning run, if the gates allow it, and stay with it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envcheck.cli import backend_options, options, usage_errors
from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.language import say
from envcheck.fleet import argv as fleet_words
from launch.runs import backends

CARRIED = ("recipes_folder",)  # goes along to other hosts; all other paths are theirs
OF_EACH = ("master", "runs", "as_json", "gates", "dry_run")  # said of the whole, and to each host in its own words
GATES_LOOK = "--gates looks at this machine, and what only shows the command does not", "leave one out"
ALONE = ("rank", "host", "nnodes", "provision", "yes", "detach", "watch", "as_script", "write")


def _path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    return paths.given(value, param.opts[0]) if value else None


@click.command(cls=usage_errors.Once, short_help="Start a run, but only if it will run; watch it.")
@options.model
@options.method
@options.device
@options.framework
@options.recipe_name
@options.recipes_folder
@options.variant
@options.node_role
@click.option("--cards", type=click.IntRange(1, 1024), metavar="N", help="So many cards of each node.")
@click.option("--nnodes", type=click.IntRange(1, 10_000), metavar="N", help="So many nodes, each started by itself.")
@click.option("--rank", type=click.IntRange(0), metavar="N", help="The number of this node, 0 for the master.")
@click.option("--master", metavar="HOST[:PORT]", help="The address of node 0 as the others reach it.")
@click.option("--host", metavar="HOST", help="The address of this node as the others reach it.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of the training; several times."
)
@click.option(
    "--installed", multiple=True, metavar="NAME=VERSION", help="An upstream's version where envcheck cannot look."
)
@click.option("--provision", is_flag=True, help="Install what is missing first.")
@click.option("--into", callback=_path, metavar="VENV", help="The virtual environment to run in, not envcheck's own.")
@click.option("--runs", default="runs", callback=_path, metavar="DIR", show_default=True, help="A folder for each run.")
@click.option("--data", callback=_path, metavar="FILE", help="Train on this; the tiny model takes any UTF-8 text.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="So many steps, not the recipe's.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="N", help="The launcher's port, where the recipe has one."
)
@click.option(
    "--deadline", "deadline_s", type=click.IntRange(1, 10**9), metavar="SECONDS", help="End the run after so long."
)
@click.option(
    "--no-stop", multiple=True, metavar="RULE", help="Do not end it by: cpu, loss, stalled, launcher, health, memory."
)
@click.option("--limit", "limits", multiple=True, metavar="RULE.NAME=N", help="Another limit of such a rule.")
@click.option(
    "--gather",
    "gather_s",
    type=click.FloatRange(1, 86400),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long the nodes wait for each other.",
)
@click.option("--watch", is_flag=True, help="A full screen: cards, loss curve, the log's end.")
@click.option("--waive", multiple=True, metavar="GATE", help="Start although this gate is closed; see --because.")
@click.option("--because", multiple=True, metavar="WHY", help="The reason for a --waive; it goes on the record.")
@click.option("--gates", is_flag=True, help="Only walk the gates: say what each saw, and start nothing.")
@click.option("--detach", is_flag=True, help="Go on without this terminal; `envcheck runs` lists, follows, stops it.")
@click.option("--as-script", is_flag=True, help="Print a shell script, and stop.")
@click.option("--write", callback=_path, metavar="DIR", help="Write script, options and configuration there, and stop.")
@backend_options.add_options
@options.hosts
@options.dry_run
@options.yes
@options.json_output
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF THE TRAINING]")
def train(dry_run: bool, as_script: bool, write: Path | None, on: str, **asked: Any) -> int:
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
    folder = asked.pop("recipes_folder")
    asked |= {"recipe": asked.pop("recipe_name"), "recipes": paths.given(folder, "--recipes") if folder else None}
    if fleet_words.chosen(fleet := {name: asked.pop(name) for name in (*fleet_words.CHOOSING, "fanout", "forget")}):
        return _many({**fleet, **asked, "dry_run": dry_run, "on": on})
    from launch import preview, session
    from launch.targets.request import TrainRequest

    own, asked = backend_options.split_options(on, asked)
    wish = TrainRequest(**asked)  # click has the same names and kinds
    if wish.gates and (dry_run or as_script or write is not None):
        raise UsageError(*GATES_LOOK)
    if as_script and write is not None:
        raise UsageError("--as-script prints the script, --write keeps it as a file", "leave one of them out")
    if wish.detach and wish.watch:
        raise UsageError("--watch fills this terminal, and --detach leaves it", "leave one of them out")
    _named(asked)
    if dry_run and write is not None:
        click.echo(say(f"envcheck: --dry-run only shows: nothing is written to {write}"), err=True)
        write = None
    if wish.as_json and write is not None:
        raise UsageError(
            "--json prints a document, --write keeps files", "leave one of them out; --dry-run --json holds all of them"
        )
    if on != "local" or dry_run or as_script or write is not None:
        preview.sound(wish)
    if (backend := backends.load_session(on)) is not None:
        return backend.train(wish, own, backends.PreviewOptions(dry_run, as_script, write))
    if write is not None:
        from launch import written

        click.echo("\n".join(written.write(wish, write)))
        return 0
    if as_script:
        click.echo(preview.preview_script(wish), nl=False)
        return 0
    if dry_run:
        return preview.preview(wish)
    return session.train(wish)


def _named(asked: dict[str, Any]) -> None:
    """That one job alone fits this machine is no answer: cards are taken for hours."""
    if asked["model"] is None and asked["recipe"] is None:
        raise UsageError(
            "what to train was not said", "say --model NAME, or --recipe NAME; envcheck recipes lists them"
        )


def _known(asked: dict[str, Any]) -> None:
    """A job that no recipe has is on no host either."""
    from installers.recipes import catalogue

    recipes = catalogue.load_all(asked["recipes"])
    recipes = (catalogue.by_name(recipes, asked["recipe"]),) if asked["recipe"] else recipes
    of_it = catalogue.Shape(asked["variant"], asked["node_role"])
    catalogue.possible(recipes, asked["model"], asked["method"], asked["device"], asked["framework"], of_it)


def _many(asked: dict[str, Any]) -> int:
    """A node of the job on each of other machines."""
    from envcheck.payload import attachments
    from launch.backends.ssh import session

    given = fleet_words.written(OF_EACH)
    if told := [name for name in ALONE if name in given]:
        else_ = {"provision": "envcheck provision --hosts does that", "yes": "leave it out: nothing is asked"}
        option = f"--{told[0].replace('_', '-')}"
        raise UsageError(
            f"{option} cannot be combined with --hosts", else_.get(told[0], "it is for one machine: log in there")
        )
    if asked["on"] != "local":
        raise UsageError(f"--hosts and --on {asked['on']} are two ways to the nodes", "leave one of them out")
    if asked["dry_run"] and asked["gates"]:
        raise UsageError(*GATES_LOOK)
    if asked["dry_run"] and asked["as_json"]:
        raise UsageError("--dry-run prints the command of each host, and no document", "leave --json out")
    _named(asked)
    _known(asked)
    carried = {name: paths.given(given[name], "--recipes") for name in CARRIED if name in given}
    words, said = fleet_words.words(given, carried)
    only = {name: asked[name] for name in ("fanout", "forget", "as_json", "gates", "dry_run")}
    return session.train(
        session.NodesRequest(
            fleet_words.hosts(asked), words, said, attachments.packed(carried), asked["master"] or "",
            str(asked["runs"]),
            **only,
        )
    )  # fmt: skip

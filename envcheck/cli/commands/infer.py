"""envcheck infer: talk with what was trained, or have one question asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envcheck.cli import options
from envcheck.core import paths
from envcheck.core.errors import UsageError


def _path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    return paths.given(value, param.opts[0]) if value else None


@click.command(short_help="Talk with what was trained, or have one question asked.")
@click.option("--run", metavar="ID", help="A run by its id, the beginning of it, its folder, or latest.")
@click.option("--checkpoint", type=click.IntRange(0), metavar="N", help="That of step N, not the last one.")
@options.model
@click.option(
    "--adapter", metavar="DIR", help="The weights to talk with, where they are of no run that envcheck knows."
)
@click.option("--method", help="chat, infer or server, as the recipe has them.")
@options.device
@options.framework
@click.option("--recipe", metavar="NAME", help="A recipe by its name; `envcheck recipes` lists them.")
@click.option("--recipes", callback=_path, metavar="DIR", help="A folder of your own recipes; they win over ours.")
@click.option("--variant", metavar="NAME", help="One of a method's variants: base.")
@click.option("--ask", metavar="QUESTION", help="Ask this, print the answer, and end.")
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(1, 86400),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long loading and answering may take, with --ask.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of the program; several times.")
@click.option(
    "--installed", multiple=True, metavar="NAME=VERSION", help="An upstream's version where envcheck cannot look."
)
@click.option("--into", callback=_path, metavar="VENV", help="The virtual environment to run in, not envcheck's own.")
@click.option("--runs", default="runs", callback=_path, metavar="DIR", show_default=True, help="A folder for each run.")
@click.option("--waive", multiple=True, metavar="GATE", help="Start although this gate is closed; see --because.")
@click.option("--because", multiple=True, metavar="WHY", help="The reason for a --waive; it goes on the record.")
@click.option("--as-script", is_flag=True, help="Print a shell script, and stop.")
@options.dry_run
@options.json_output
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF THE PROGRAM]")
def infer(
    run: str | None,
    checkpoint: int | None,
    adapter: str | None,
    ask: str | None,
    deadline_s: float,
    dry_run: bool,
    as_script: bool,
    **asked: Any,
) -> int:
    """Talk with what was trained, by the program and in the place that its recipe has for it, behind the same gates.

    The terminal is the program's: it ends by its own word (exit) or Ctrl-C.  With --ask one question is asked and the
    answer printed; that none came is exit code 5.

    \b
    envcheck infer --run latest                                   with the last checkpoint of the newest run
    envcheck infer --run latest --ask "Who are you?"              does it answer at all
    envcheck infer --run 20261121-0915 --checkpoint 500 --ask "Who are you?" --json
    envcheck infer --model qwen-7b --framework swift --adapter output/checkpoint-500 --set max_new_tokens=200
    envcheck infer --model qwen-7b --framework swift --dry-run    the command for the model as published
    """
    from launch.infer import preview, session
    from launch.infer.chat_options import ChatOptions
    from launch.targets.request import TrainRequest

    wish = ChatOptions(TrainRequest(**asked), run, checkpoint, adapter, ask, deadline_s)
    if ask is not None and not ask.strip():
        raise UsageError("--ask: an empty question", 'for instance --ask "Who are you?"')
    if dry_run or as_script:
        click.echo(preview.preview(wish, as_script), nl=False)
        return 0
    return session.infer(wish)

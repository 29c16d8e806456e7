"""envcheck infer: talk with what was trained, or have one question asked."""

from __future__ import annotations

from dataclasses import dataclass

import click

from envcheck.cli import options
from envcheck.cli.requests import argument, command, convert_request, flag, option
from envcheck.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class InferOptions(options.JsonOption, options.StartOptions, options.RecipeOption, options.JobOptions):
    run: str | None = option("--run", metavar="ID", help="A run by its id, the beginning of it, its folder, or latest.")
    checkpoint: int | None = option(
        "--checkpoint", type=click.IntRange(0), metavar="N", help="That of step N, not the last one."
    )
    adapter: str | None = option(
        "--adapter", metavar="DIR", help="The weights to talk with, where they are of no run that envcheck knows."
    )
    method: str | None = option("--method", help="chat, infer or server, as the recipe has them.", order=options.JOB)
    variant: str | None = option("--variant", metavar="NAME", help="One of a method's variants: base.")
    ask: str | None = option("--ask", metavar="QUESTION", help="Ask this, print the answer, and end.")
    deadline_s: float = option(
        "--deadline", type=click.FloatRange(1, 86400), default=600, show_default=True, metavar="SECONDS",
        help="How long loading and answering may take, with --ask.",
    )  # fmt: skip
    as_script: bool = flag("--as-script", help="Print a shell script, and stop.")
    extra: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF THE PROGRAM]")


@command(InferOptions, short_help="Talk with what was trained, or have one question asked.")
def infer(request: InferOptions) -> int:
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

    wish = convert_request(ChatOptions, request, request=convert_request(TrainRequest, request, deadline_s=None))
    if request.ask is not None and not request.ask.strip():
        raise UsageError("--ask: an empty question", 'for instance --ask "Who are you?"')
    if request.dry_run or request.as_script:
        click.echo(preview.preview(wish, request.as_script), nl=False)
        return 0
    return session.infer(wish)

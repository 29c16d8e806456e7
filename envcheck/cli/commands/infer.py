"""envcheck infer: chat with a trained model, or ask it one question."""

from __future__ import annotations

from dataclasses import dataclass

import click

from envcheck.cli import options
from envcheck.cli.number_types import Seconds, WholeNumber
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import argument, command, convert_request, option
from envcheck.core.errors import UsageError
from envcheck.core.messages import _


@dataclass(frozen=True, kw_only=True)
class InferOptions(
    options.JsonOption, options.StartOptions, options.DevicesOption, options.VariantOption, options.RecipeOption,
    options.JobOptions,
):  # fmt: skip
    run: str | None = option(
        "--run", group=OptionGroup.JOB, is_common=True, metavar="RUN",
        help="Run ID or its beginning, folder, or 'latest'.",
    )  # fmt: skip
    checkpoint: int | None = option(
        "--checkpoint", group=OptionGroup.JOB, is_common=True, type=WholeNumber(0), metavar="STEP",
        help="Checkpoint step to load (default: the last).",
    )  # fmt: skip
    adapter: str | None = option(
        "--adapter", group=OptionGroup.JOB, type=click.Path(), metavar="DIR",
        help="Folder with weights, instead of a run.",
    )  # fmt: skip
    ask: str | None = option(
        "--ask", group=OptionGroup.RUN, is_common=True, metavar="QUESTION", is_prose=True,
        help="Ask one question, print the answer and exit.",
    )  # fmt: skip
    answer_timeout_s: float = option(
        "--answer-timeout", group=OptionGroup.RUN, type=Seconds(1, 86400), default=600, show_default=True,
        metavar="SECONDS", help="Time limit for --ask.",
    )  # fmt: skip
    as_script: bool = options.as_script_flag()
    extra: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM_OPTIONS]")


@command(InferOptions, short_help="Chat with a trained model, or ask it one question.")
def infer(request: InferOptions) -> int:
    """Chat with a trained model in the environment of its recipe, after the same preflight checks as `train`.

    The chat program owns the terminal: leave it with its own command (exit) or Ctrl-C.  With --ask, exit code 5 means
    that no answer came.

    \b
    envcheck infer --run latest                       chat with the newest run
    envcheck infer --run latest --ask "Who are you?"  ask one question
    envcheck infer --run 20261121-0915 --checkpoint 500 --ask "Who are you?"
    envcheck infer --model qwen-7b --framework swift --adapter output/ckpt-500
    envcheck infer --model qwen-7b --framework swift --dry-run    show the command
    """
    from launch.infer import chat_session, preview
    from launch.infer.chat_options import ChatOptions
    from launch.targets.train_request import TrainRequest

    training = convert_request(TrainRequest, request)
    wish = convert_request(ChatOptions, request, request=training, deadline_s=request.answer_timeout_s)
    if request.ask is not None and not request.ask.strip():
        raise UsageError(_("--ask: the question is empty"), _('for example: --ask "Who are you?"'))
    if request.dry_run or request.as_script:
        click.echo(preview.render_preview(wish, request.as_script), nl=False)
        return 0
    return chat_session.run_chat(wish)
